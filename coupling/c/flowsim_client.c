/* flowsim_client.c: the worker of PROTOCOL.md in C99 and POSIX over libzmq; flowsim_client.h describes its use.
   It is a single file, so that a solver can add it to its sources without building and linking a library. */
#define _POSIX_C_SOURCE 200809L

#include "flowsim_client.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define VERSION_MAJOR 1
#define VERSION_MINOR 0
#define HEADER_SIZE 64
#define MAX_BODY 67108864
#define MOST 65536 /* limit for workers, environments of a worker, floats in an observation or an action */
#define SHORTEST_WAIT 0.1 /* seconds before HELLO is sent again */
#define LONGEST_WAIT 10.0 /* seconds before any message is sent again */
#define FIRST_RESEND 1.0
#define STOOD_STILL 0.1 /* a wait that ends so many seconds late means that the process was stopped */
#define LOOK_AGAIN 1000 /* milliseconds, at most, for messages received meanwhile to pass through ZeroMQ */
#define ASK_AGAIN 1.0 /* seconds before HELLO is sent again after it was answered by PAUSE */
#define DELAYS 512        /* number of latest steps, for the percentiles in HEARTBEAT */
#define MAX_FAILURE 1000  /* characters of why an environment failed */
#define MAX_TEXT 4096     /* characters of a reason */
#define MAX_SECONDS 1e9
#define MAX_FILE 1048576  /* bytes of connection.json */
#define MISSED 3          /* heartbeats without an answer after which a new connection is made */
#define BROKEN_OFF 3      /* successive handshakes that ended without a reason, which count as a refusal */
#define FAILED_HANDSHAKES \
    (ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
#define HEART "inproc://heart"

enum kind {
    HELLO = 1, WELCOME, REJECT, RESET, STEP, ACTION, HEARTBEAT, PAUSE, ERROR, GOODBYE, STATUS, STATUS_REPLY
};

/* --- time, random numbers, bytes -------------------------------------------------------------------------- */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Return a number unique to this process: from the system's generator, and from time and process if it has none. */
static uint64_t draw_number(void) {
    uint64_t number = nanoseconds() ^ ((uint64_t)getpid() << 40);
    int file = open("/dev/urandom", O_RDONLY);
    if (file >= 0) {
        uint64_t drawn;
        if (read(file, &drawn, sizeof drawn) == (ssize_t)sizeof drawn) number ^= drawn;
        close(file);
    }
    number &= INT64_MAX;
    return number ? number : 1;
}

/* CRC-32 (IEEE, as in zlib), four bits at a time. */
static uint32_t crc32(uint32_t crc, const unsigned char *bytes, size_t length) {
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc = table[(crc ^ bytes[i]) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (bytes[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}

static void put_little(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get_little(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static unsigned char *put_float(unsigned char *at, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put_little(at, bits, 4);
    return at + 4;
}

static unsigned char *put_double(unsigned char *at, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    put_little(at, bits, 8);
    return at + 8;
}

static float get_float(const unsigned char *at) {
    uint32_t bits = (uint32_t)get_little(at, 4);
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Return the length in bytes of the first character; 0 if it is not UTF-8, or a terminal control character. */
static size_t character(const unsigned char *at, size_t left) {
    if (*at < 0x80) return (*at >= 0x20 && *at != 0x7f) || *at == '\n' || *at == '\t';
    size_t length = *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (*at < 0xc2 || *at > 0xf4 || length > left) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    /* control characters, overlong forms, surrogates, characters beyond U+10FFFF */
    bool bad = (*at == 0xc2 && at[1] < 0xa0) || (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f)
               || (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f);
    return bad ? 0 : length;
}

/* Copy a text for the wire or a terminal: at most size - 1 bytes, with ? for invalid characters. */
static void copy_text(char *to, size_t size, const char *from, size_t length) {
    const unsigned char *at = (const unsigned char *)from, *end = at + length;
    while (at < end) {
        size_t good = character(at, (size_t)(end - at)), taken = good ? good : 1;
        if (taken >= size) break;
        if (good) memcpy(to, at, taken);
        else *to = '?';
        at += taken;
        to += taken;
        size -= taken;
    }
    *to = 0;
}

/* --- the header ------------------------------------------------------------------------------------------- */

struct header {
    enum kind kind;
    uint64_t session, sequence, acknowledgement;
    uint32_t first, environments;
    uint64_t clock;
    uint32_t epoch;
};

/* Make a frame of a body that begins HEADER_SIZE bytes after the start of the frame. */
static void seal(unsigned char *frame, const struct header *header, size_t body_length) {
    memcpy(frame, "FSIM", 4);
    frame[4] = VERSION_MAJOR;
    frame[5] = VERSION_MINOR;
    frame[6] = (unsigned char)header->kind;
    frame[7] = 0;
    put_little(frame + 8, body_length, 4);
    put_little(frame + 12, 0, 4);
    put_little(frame + 16, header->session, 8);
    put_little(frame + 24, header->sequence, 8);
    put_little(frame + 32, header->acknowledgement, 8);
    put_little(frame + 40, header->first, 4);
    put_little(frame + 44, header->environments, 4);
    put_little(frame + 48, header->clock, 8);
    put_little(frame + 56, header->epoch, 4);
    put_little(frame + 60, 0, 4);
    put_little(frame + 12, crc32(0, frame, HEADER_SIZE + body_length), 4);
}

/* Read the header of a frame; return why it is refused, or NULL. */
static const char *read_header(const unsigned char *frame, size_t length, struct header *header) {
    static const unsigned char zero[4];
    if (length < HEADER_SIZE) return "a frame is shorter than its header";
    if (memcmp(frame, "FSIM", 4) != 0) return "a frame does not begin with FSIM";
    if (frame[4] != VERSION_MAJOR && frame[6] != REJECT) return "a frame is of another major version";
    if (length - HEADER_SIZE > MAX_BODY || length - HEADER_SIZE != get_little(frame + 8, 4))
        return "a frame has not the length that it says";
    uint32_t crc = crc32(crc32(0, frame, 12), zero, 4);
    if (crc32(crc, frame + 16, length - 16) != get_little(frame + 12, 4)) return "a frame's checksum is wrong";
    if (frame[7] || get_little(frame + 60, 4)) return "a frame has flags set that mean nothing";
    if (frame[6] < HELLO || frame[6] > STATUS_REPLY) return "a message type is unknown";
    header->kind = (enum kind)frame[6];
    header->session = get_little(frame + 16, 8);
    header->sequence = get_little(frame + 24, 8);
    header->acknowledgement = get_little(frame + 32, 8);
    header->first = (uint32_t)get_little(frame + 40, 4);
    header->environments = (uint32_t)get_little(frame + 44, 4);
    header->clock = get_little(frame + 48, 8);
    header->epoch = (uint32_t)get_little(frame + 56, 4);
    bool rows = header->kind == RESET || header->kind == STEP || header->kind == ACTION;
    bool numbered = header->kind == ERROR ? header->sequence != 0 : rows; /* ERROR may repeat a number */
    if (header->first || !numbered != !header->sequence || !rows != !header->environments
        || (rows && !header->session) || header->environments > MOST || (header->acknowledgement && header->kind != ACTION && header->kind != PAUSE))
        return "a header has fields that mean nothing";
    return NULL;
}

/* --- msgpack: the part that the maps need ----------------------------------------------------------------- */

/* Writes the shortest form of every value, as other encoders do; the caller provides a buffer that is long enough. */
struct writer {
    unsigned char *at;
};

static void write_big(struct writer *writer, unsigned char code, uint64_t value, int bytes) {
    *writer->at++ = code;
    for (int i = bytes - 1; i >= 0; i--) *writer->at++ = (unsigned char)(value >> (8 * i));
}

static void write_integer(struct writer *writer, uint64_t value) {
    if (value < 0x80) *writer->at++ = (unsigned char)value;
    else if (value <= UINT8_MAX) write_big(writer, 0xcc, value, 1);
    else if (value <= UINT16_MAX) write_big(writer, 0xcd, value, 2);
    else if (value <= UINT32_MAX) write_big(writer, 0xce, value, 4);
    else write_big(writer, 0xcf, value, 8);
}

static void write_number(struct writer *writer, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    write_big(writer, 0xcb, bits, 8);
}

static void write_bytes(struct writer *writer, const void *bytes, size_t length) {
    memcpy(writer->at, bytes, length);
    writer->at += length;
}

static void write_text(struct writer *writer, const char *text) {
    size_t length = strlen(text);
    if (length < 32) *writer->at++ = (unsigned char)(0xa0 | length);
    else if (length <= UINT8_MAX) write_big(writer, 0xd9, length, 1);
    else if (length <= UINT16_MAX) write_big(writer, 0xda, length, 2);
    else write_big(writer, 0xdb, length, 4);
    write_bytes(writer, text, length);
}

static void write_binary(struct writer *writer, const unsigned char *bytes, size_t length) {
    if (length <= UINT8_MAX) write_big(writer, 0xc4, length, 1);
    else if (length <= UINT16_MAX) write_big(writer, 0xc5, length, 2);
    else write_big(writer, 0xc6, length, 4);
    if (length) write_bytes(writer, bytes, length);
}

static void write_array_of(struct writer *writer, const double *values, size_t count) {
    if (count < 16) *writer->at++ = (unsigned char)(0x90 | count);
    else if (count <= UINT16_MAX) write_big(writer, 0xdc, count, 2);
    else write_big(writer, 0xdd, count, 4);
    for (size_t i = 0; i < count; i++) write_number(writer, values[i]);
}

static void write_map_of(struct writer *writer, int entries) {
    *writer->at++ = (unsigned char)(0x80 | entries); /* at most 15, which is enough */
}

struct reader {
    const unsigned char *at, *end;
};

struct text {
    const char *begin;
    size_t length;
};

struct integers {
    int64_t *values;
    size_t room, count;
};

/* Fields of a map: none may be missing, and no others may be present. */
struct field {
    const char *name;
    enum { INTEGER, NUMBER, TEXT, INTEGERS } type;
    void *into; /* uint64_t, double, struct text, struct integers */
};

static bool read_big(struct reader *reader, int bytes, uint64_t *value) {
    if (reader->end - reader->at < bytes) return false;
    *value = 0;
    while (bytes--) *value = *value << 8 | *reader->at++;
    return true;
}

static bool read_code(struct reader *reader, unsigned char *code) {
    if (reader->at == reader->end) return false;
    *code = *reader->at++;
    return true;
}

static bool read_integer(struct reader *reader, uint64_t *value) {
    unsigned char code;
    if (!read_code(reader, &code)) return false;
    if (code < 0x80) {
        *value = code;
        return true;
    }
    if (code >= 0xcc && code <= 0xcf) return read_big(reader, 1 << (code - 0xcc), value) && *value <= INT64_MAX;
    if (code < 0xd0 || code > 0xd3) return false;
    int bytes = 1 << (code - 0xd0); /* a signed form is valid for a non-negative number */
    return read_big(reader, bytes, value) && *value >> (8 * bytes - 1) == 0;
}

static bool read_number(struct reader *reader, double *value) {
    uint64_t bits;
    if (reader->at != reader->end && *reader->at == 0xcb) {
        reader->at++;
        if (!read_big(reader, 8, &bits)) return false;
        memcpy(value, &bits, 8);
        return true;
    }
    if (reader->at != reader->end && *reader->at == 0xca) {
        reader->at++;
        if (!read_big(reader, 4, &bits)) return false;
        uint32_t half = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &half, 4);
        *value = narrow;
        return true;
    }
    if (!read_integer(reader, &bits)) return false;
    *value = (double)bits;
    return true;
}

static bool read_text(struct reader *reader, struct text *text) {
    unsigned char code;
    uint64_t length;
    if (!read_code(reader, &code)) return false;
    if (code >= 0xa0 && code <= 0xbf) length = code & 31;
    else if (code < 0xd9 || code > 0xdb || !read_big(reader, 1 << (code - 0xd9), &length)) return false;
    if (length > (uint64_t)(reader->end - reader->at)) return false;
    text->begin = (const char *)reader->at;
    text->length = (size_t)length;
    reader->at += length;
    return true;
}

static bool read_integers(struct reader *reader, struct integers *integers) {
    unsigned char code;
    uint64_t count;
    if (!read_code(reader, &code)) return false;
    if (code >= 0x90 && code <= 0x9f) count = code & 15;
    else if ((code != 0xdc && code != 0xdd) || !read_big(reader, code == 0xdc ? 2 : 4, &count)) return false;
    if (count > integers->room) return false;
    for (integers->count = 0; integers->count < count; integers->count++) {
        uint64_t value;
        if (!read_integer(reader, &value)) return false;
        integers->values[integers->count] = (int64_t)value;
    }
    return true;
}

static bool read_value(struct reader *reader, const struct field *field) {
    switch (field->type) {
        case INTEGER: return read_integer(reader, field->into);
        case NUMBER: return read_number(reader, field->into);
        case TEXT: return read_text(reader, field->into);
        case INTEGERS: return read_integers(reader, field->into);
    }
    return false;
}

static bool same_text(const struct text *text, const char *other) {
    return strlen(other) == text->length && memcmp(other, text->begin, text->length) == 0;
}

/* Read a map with exactly these fields (at most 15), each once. */
static bool read_map(const unsigned char *body, size_t length, const struct field *fields, int count) {
    struct reader reader = {body, body + length};
    unsigned char code;
    unsigned found = 0;
    if (!read_code(&reader, &code) || code != (0x80 | count)) return false;
    for (int entry = 0; entry < count; entry++) {
        struct text key;
        int i = 0;
        if (!read_text(&reader, &key)) return false;
        while (i < count && !same_text(&key, fields[i].name)) i++;
        if (i == count || found & 1u << i || !read_value(&reader, &fields[i])) return false;
        found |= 1u << i;
    }
    return reader.at == reader.end;
}

/* --- bodies from the learner ------------------------------------------------------------------------------ */

struct welcome {
    uint64_t version, session, slot, first_agent;
    struct integers seeds;
    double heartbeat, patience;
};

static bool read_welcome(const unsigned char *body, size_t length, struct welcome *welcome) {
    const struct field fields[] = {
        {"version", INTEGER, &welcome->version},     {"session", INTEGER, &welcome->session},
        {"slot", INTEGER, &welcome->slot},           {"first_agent", INTEGER, &welcome->first_agent},
        {"seeds", INTEGERS, &welcome->seeds},        {"heartbeat", NUMBER, &welcome->heartbeat},
        {"patience", NUMBER, &welcome->patience},
    };
    return read_map(body, length, fields, 7) && welcome->session && welcome->slot < MOST && welcome->heartbeat > 0
           && welcome->heartbeat <= MAX_SECONDS && welcome->patience > 0 && welcome->patience <= MAX_SECONDS;
}

static bool read_reason(const unsigned char *body, size_t length, struct text *reason) {
    const struct field fields[] = {{"reason", TEXT, reason}};
    if (!read_map(body, length, fields, 1)) return false;
    size_t at = 0;
    for (int characters = 0; at < reason->length && characters < MAX_TEXT; characters++) {
        size_t good = character((const unsigned char *)reason->begin + at, reason->length - at);
        if (!good) return false;
        at += good;
    }
    return at == reason->length;
}

static bool read_actions(const unsigned char *body, size_t length, size_t count, float *actions) {
    if (length != 4 * count) return false;
    for (size_t i = 0; i < count; i++) {
        actions[i] = get_float(body + 4 * i);
        if (!isfinite(actions[i])) return false;
    }
    return true;
}

/* --- connection.json -------------------------------------------------------------------------------------- */

struct connection {
    char *endpoint, *task_hash, *server_key, *public_key, *secret_key;
    double patience;
};

static void free_connection(struct connection *connection) {
    free(connection->endpoint);
    free(connection->task_hash);
    free(connection->server_key);
    free(connection->public_key);
    free(connection->secret_key);
}

static void skip_blanks(const char **at) {
    while (**at == ' ' || **at == '\n' || **at == '\t' || **at == '\r') ++*at;
}

/* Read "..." into a new string, which the caller frees; NULL if it is invalid. Escapes beyond ASCII do not occur. */
static char *json_string(const char **at) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (**at != '"') return NULL;
    char *text = malloc(strlen(*at)), *to = text;
    if (!text) return NULL;
    for (++*at; **at && **at != '"'; ++*at) {
        const char *name;
        unsigned code;
        if (**at != '\\') *to++ = **at;
        else if (*++*at && (name = strchr(names, **at))) *to++ = meanings[name - names];
        else if (**at == 'u' && sscanf(*at + 1, "%4x", &code) == 1 && code < 128 && strlen(*at) > 4) {
            *to++ = (char)code;
            *at += 4;
        } else break;
    }
    if (**at != '"') {
        free(text);
        return NULL;
    }
    ++*at;
    *to = 0;
    return text;
}

/* Read a decimal number; strtod would depend on the user's locale. */
static bool json_number(const char **at, double *value) {
    double sign = **at == '-' ? -1.0 : 1.0, digits = 0.0;
    int scale = 0, exponent = 0;
    if (**at == '-') ++*at;
    const char *begin = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) digits = 10 * digits + (**at - '0');
    if (*at == begin) return false;
    if (**at == '.')
        for (++*at; **at >= '0' && **at <= '9'; ++*at, scale--) digits = 10 * digits + (**at - '0');
    if (**at == 'e' || **at == 'E') {
        ++*at;
        int direction = **at == '-' ? -1 : 1;
        if (**at == '-' || **at == '+') ++*at;
        for (; **at >= '0' && **at <= '9' && exponent < 1000; ++*at) exponent = 10 * exponent + (**at - '0');
        exponent *= direction;
    }
    *value = sign * digits * pow(10.0, scale + exponent);
    return true;
}

static bool json_skip(const char **at, int depth) {
    double number;
    skip_blanks(at);
    if (depth > 32) return false;
    if (**at == '"') {
        char *text = json_string(at);
        free(text);
        return text != NULL;
    }
    if (**at == '{' || **at == '[') {
        char close = **at == '{' ? '}' : ']';
        ++*at;
        skip_blanks(at);
        for (bool first = true; **at != close; first = false) {
            if (!first && *(*at)++ != ',') return false;
            if (close == '}') {
                skip_blanks(at);
                char *key = json_string(at);
                free(key);
                skip_blanks(at);
                if (!key || *(*at)++ != ':') return false;
            }
            if (!json_skip(at, depth + 1)) return false;
            skip_blanks(at);
        }
        ++*at;
        return true;
    }
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (strncmp(*at, words[i], strlen(words[i])) == 0) {
            *at += strlen(words[i]);
            return true;
        }
    return json_number(at, &number);
}

static bool parse_connection(const char *at, struct connection *connection) {
    const struct {
        const char *name;
        char **into;
    } texts[] = {
        {"endpoint", &connection->endpoint},     {"task_hash", &connection->task_hash},
        {"server_key", &connection->server_key}, {"public_key", &connection->public_key},
        {"secret_key", &connection->secret_key},
    };
    skip_blanks(&at);
    if (*at++ != '{') return false;
    skip_blanks(&at);
    for (bool first = true; *at != '}'; first = false) {
        if (!first && *at++ != ',') return false;
        skip_blanks(&at);
        char *key = json_string(&at);
        if (!key) return false;
        int i = 0;
        while (i < 5 && strcmp(key, texts[i].name) != 0) i++;
        bool patience = strcmp(key, "patience") == 0, good;
        free(key);
        skip_blanks(&at);
        if (*at++ != ':') return false;
        skip_blanks(&at);
        if (i < 5) {
            free(*texts[i].into);
            good = (*texts[i].into = json_string(&at)) != NULL;
        } else good = patience ? json_number(&at, &connection->patience) : json_skip(&at, 0);
        if (!good) return false;
        skip_blanks(&at);
    }
    ++at;
    skip_blanks(&at);
    return *at == 0 && connection->endpoint && connection->task_hash && connection->patience > 0;
}

/* Read a small file into a new string, which the caller frees; NULL with errno if it cannot be read. */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = malloc(MAX_FILE + 1);
    if (text) {
        errno = 0;
        text[fread(text, 1, MAX_FILE, file)] = 0;
        if (ferror(file)) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

/* Read a connection file; return an error text, or NULL. */
static const char *read_connection(const char *path, struct connection *connection) {
    char *text = read_file(path);
    if (!text && errno == ENOENT)
        return "there is no such file; a run has it in its folder while `flowsim serve`, `train` or `evaluate` is at work";
    if (!text) return strerror(errno);
    bool good = parse_connection(text, connection);
    free(text);
    return good ? NULL : "it is no connection file";
}

/* --- the client ------------------------------------------------------------------------------------------- */

/* State sent in the heartbeats, and received by them. */
struct life {
    uint64_t steps, resends, failures;
    double step_began; /* 0 outside of a step */
    double delays[DELAYS];
    uint64_t asked; /* number of delays so far */
    char failure[MAX_FAILURE + 1];
    double heard; /* time of the learner's last sign of life */
};

/* A connection to the learner, which can be renewed. */
struct line {
    struct connection connection; /* content of the file when last read */
    void *socket;
    int queue_only_when_connected;
    bool watched;
    void *watch; /* reports failed handshakes */
};

struct flowsim_client {
    int slot, environments, observation_size, action_size;
    double *low, *high;
    int64_t *seeds;
    char *connection_file;
    struct welcome welcome;
    uint64_t incarnation, sequence, chance;
    int outcome; /* FLOWSIM_OK until the client cannot continue */
    bool dismissed; /* by a learner that does not know this worker */
    char error[2 * MAX_FAILURE];
    const char *misread; /* why the last frame was dropped */

    void *context;
    struct line line;
    zmq_msg_t incoming;
    unsigned char *frame; /* the last HELLO, RESET or STEP, to be sent again unchanged */
    size_t frame_length;

    int outbox[2]; /* file descriptors or -1 */
    uint64_t kept; /* number of messages written to the outbox */

    void *heart; /* this thread's end of the pair to the heartbeat thread */
    void *heart_end; /* the heartbeat thread's end */
    struct line heart_line;
    pthread_t thread;
    pthread_mutex_t lock; /* protects life */
    struct life life;
};

static int fail(flowsim_client *client, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(client->error, sizeof client->error, format, arguments);
    va_end(arguments);
    return client->outcome = FLOWSIM_BROKEN;
}

/* An error of the caller that it can correct. */
static int refuse(flowsim_client *client, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(client->error, sizeof client->error, format, arguments);
    va_end(arguments);
    return FLOWSIM_BROKEN;
}

/* Return a randomly changed time, so that many workers do not send at the same time (xorshift64*). */
static double jitter(flowsim_client *client, double seconds) {
    client->chance ^= client->chance >> 12;
    client->chance ^= client->chance << 25;
    client->chance ^= client->chance >> 27;
    double unit = (double)((client->chance * 2685821657736338717u) >> 11) / 9007199254740992.0;
    return seconds * (0.8 + 0.4 * unit);
}

static double longer(double wait) {
    return 2 * wait < LONGEST_WAIT / 1.2 ? 2 * wait : LONGEST_WAIT / 1.2; /* within the limit also with jitter */
}

static double last_heard(flowsim_client *client) {
    pthread_mutex_lock(&client->lock);
    double heard = client->life.heard;
    pthread_mutex_unlock(&client->lock);
    return heard;
}

static void note_heard(flowsim_client *client) {
    pthread_mutex_lock(&client->lock);
    client->life.heard = now();
    pthread_mutex_unlock(&client->lock);
}

/* --- sockets ---------------------------------------------------------------------------------------------- */

static bool set(void *socket, int option, const void *value, size_t length) {
    return zmq_setsockopt(socket, option, value, length) == 0;
}

static bool secure(void *socket, const struct connection *connection) {
    if (!connection->server_key || !*connection->server_key) return true;
    return connection->public_key && connection->secret_key
           && set(socket, ZMQ_CURVE_SERVERKEY, connection->server_key, strlen(connection->server_key) + 1)
           && set(socket, ZMQ_CURVE_PUBLICKEY, connection->public_key, strlen(connection->public_key) + 1)
           && set(socket, ZMQ_CURVE_SECRETKEY, connection->secret_key, strlen(connection->secret_key) + 1);
}

static void close_line(struct line *line) {
    if (line->socket) zmq_close(line->socket);
    if (line->watch) zmq_close(line->watch);
    line->socket = line->watch = NULL;
}

/* Watch the handshakes of a line's new socket: a DEALER that the learner refuses waits without an error. */
static void watch(struct line *line, void *context) {
    char name[64];
    snprintf(name, sizeof name, "inproc://watch-%p", line->socket);
    line->watch = zmq_socket(context, ZMQ_PAIR);
    if (line->watch
        && (zmq_socket_monitor(line->socket, name, FAILED_HANDSHAKES) != 0 || zmq_connect(line->watch, name) != 0)) {
        zmq_close(line->watch);
        line->watch = NULL;
    }
}

/* Read the events of the watch; return why the learner refuses this worker, or NULL. A single handshake that was
 * broken off may be that of a learner that died. */
static const char *refusal(struct line *line, int *broken_off) {
    unsigned char event[64], address[256]; /* an event is a u16, in the byte order of this machine, and a value */
    while (line->watch && zmq_recv(line->watch, event, sizeof event, ZMQ_DONTWAIT) >= 2) {
        uint16_t number;
        memcpy(&number, event, 2);
        zmq_recv(line->watch, address, sizeof address, ZMQ_DONTWAIT);
        if (number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return "refused this worker's key";
        if (number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) return "did not understand this worker's handshake";
        if (++*broken_off == BROKEN_OFF) return "breaks the handshakes of this worker off";
    }
    return NULL;
}

/* Connect a DEALER to the address in the connection file; return an error text, or NULL. */
static const char *open_line(struct line *line, void *context) {
    int linger = 0;
    int64_t longest = HEADER_SIZE + MAX_BODY;
    const char *cannot = NULL;
    line->socket = zmq_socket(context, ZMQ_DEALER);
    if (!line->socket) return "be made";
    if (line->watched) watch(line, context);
    if (!set(line->socket, ZMQ_LINGER, &linger, sizeof linger)
        || !set(line->socket, ZMQ_MAXMSGSIZE, &longest, sizeof longest)
        || !set(line->socket, ZMQ_IMMEDIATE, &line->queue_only_when_connected, sizeof(int)))
        cannot = "be set up";
    else if (!secure(line->socket, &line->connection)) cannot = "use the keys of the connection file";
    else if (zmq_connect(line->socket, line->connection.endpoint) != 0) cannot = "connect";
    if (!cannot) return NULL;
    int reason = errno;
    close_line(line);
    errno = reason;
    return cannot;
}

/* Connect again, to the address then in the file: a restarted learner writes a new one. Messages queued on the old
 * connection are dropped. */
static const char *renew_line(struct line *line, void *context, const char *connection_file) {
    struct connection fresh = {0};
    bool there = read_connection(connection_file, &fresh) == NULL;
    free_connection(there ? &line->connection : &fresh);
    if (there) line->connection = fresh;
    close_line(line);
    return open_line(line, context);
}

/* Send the kept frame over a new connection. If it cannot be sent, it is sent again like a lost one. */
static int send_anew(flowsim_client *client) {
    const char *cannot = renew_line(&client->line, client->context, client->connection_file);
    if (cannot)
        return fail(client, "a socket for %s cannot %s: %s", client->line.connection.endpoint, cannot,
                    zmq_strerror(errno));
    zmq_send(client->line.socket, client->frame, client->frame_length, ZMQ_DONTWAIT);
    return FLOWSIM_OK;
}

/* Receive one frame into message; return an error text, or NULL. A message of several frames is drained. */
static const char *take_frame(void *socket, zmq_msg_t *message, struct header *header) {
    if (zmq_msg_recv(message, socket, ZMQ_DONTWAIT) < 0) return "nothing could be received";
    if (!zmq_msg_more(message)) return read_header(zmq_msg_data(message), zmq_msg_size(message), header);
    while (zmq_msg_more(message) && zmq_msg_recv(message, socket, ZMQ_DONTWAIT) >= 0) continue;
    return "a message has more than one frame";
}

/* --- heartbeats, in their own thread ------------------------------------------------------------------------- */

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void write_heartbeat(struct writer *writer, const struct life *life, double step_seconds, double p50,
                            double p99) {
    write_map_of(writer, 7);
    write_text(writer, "steps");
    write_integer(writer, life->steps);
    write_text(writer, "step_seconds");
    write_number(writer, step_seconds);
    write_text(writer, "delay_p50_us");
    write_number(writer, p50);
    write_text(writer, "delay_p99_us");
    write_number(writer, p99);
    write_text(writer, "resends");
    write_integer(writer, life->resends);
    write_text(writer, "failures");
    write_integer(writer, life->failures);
    write_text(writer, "failure");
    write_text(writer, life->failure);
}

static void send_heartbeat(flowsim_client *client) {
    struct life life;
    unsigned char frame[HEADER_SIZE + MAX_FAILURE + 256];
    struct writer writer = {frame + HEADER_SIZE};
    struct header header = {.kind = HEARTBEAT, .session = client->welcome.session, .clock = nanoseconds()};
    pthread_mutex_lock(&client->lock);
    life = client->life;
    pthread_mutex_unlock(&client->lock);
    size_t count = life.asked < DELAYS ? (size_t)life.asked : DELAYS;
    qsort(life.delays, count, sizeof *life.delays, ascending);
    double p50 = count ? 1e6 * life.delays[(count - 1) / 2] : 0.0;
    double p99 = count ? 1e6 * life.delays[(count - 1) * 99 / 100] : 0.0;
    write_heartbeat(&writer, &life, life.step_began > 0 ? now() - life.step_began : 0.0, p50, p99);
    seal(frame, &header, (size_t)(writer.at - frame) - HEADER_SIZE);
    zmq_send(client->heart_line.socket, frame, (size_t)(writer.at - frame), ZMQ_DONTWAIT);
}

/* Send a HEARTBEAT every period and record the answers, until a message arrives from the other end of the pair. Other
 * messages on this connection, such as the REJECT of a session that the learner has given up, are passed on. */
static void *beat(void *argument) {
    flowsim_client *client = argument;
    struct line *line = &client->heart_line;
    zmq_msg_t message;
    zmq_msg_init(&message);
    double next = now();
    for (int unanswered = 0;;) {
        if (next <= now()) {
            if (unanswered++ % MISSED == MISSED - 1 || !line->socket)
                renew_line(line, client->context, client->connection_file);
            if (line->socket) send_heartbeat(client);
            next = now() + client->welcome.heartbeat;
        }
        zmq_pollitem_t items[2] = {{client->heart_end, 0, ZMQ_POLLIN, 0}, {line->socket, 0, ZMQ_POLLIN, 0}};
        double left = next - now();
        if (zmq_poll(items, line->socket ? 2 : 1, left > 0 ? (long)ceil(1000 * left) : 0) < 0) {
            if (errno != EINTR) break;
            continue;
        }
        if (items[0].revents) break;
        struct header header;
        if (items[1].revents && !take_frame(line->socket, &message, &header)) {
            unanswered = 0;
            if (header.session == client->welcome.session) note_heard(client);
            if (header.kind != HEARTBEAT) zmq_msg_send(&message, client->heart_end, ZMQ_DONTWAIT);
        }
    }
    zmq_msg_close(&message);
    close_line(line);
    zmq_close(client->heart_end);
    return NULL;
}

static int start_heart(flowsim_client *client) {
    sigset_t all, before;
    client->heart_line.queue_only_when_connected = 1;
    client->heart_end = zmq_socket(client->context, ZMQ_PAIR);
    client->heart = zmq_socket(client->context, ZMQ_PAIR);
    int failed = !client->heart_end || !client->heart || zmq_bind(client->heart_end, HEART)
                 || zmq_connect(client->heart, HEART)
                 || renew_line(&client->heart_line, client->context, client->connection_file);
    if (failed) failed = errno;
    else {
        sigfillset(&all); /* signals go to the threads of the program */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(&client->thread, NULL, beat, client);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!failed) return FLOWSIM_OK;
    close_line(&client->heart_line);
    if (client->heart_end) zmq_close(client->heart_end);
    if (client->heart) zmq_close(client->heart);
    client->heart = NULL;
    return fail(client, "the thread of the heartbeats cannot be started: %s", zmq_strerror(failed));
}

static void stop_heart(flowsim_client *client) {
    if (!client->heart) return;
    int linger = 1000;
    zmq_setsockopt(client->heart, ZMQ_LINGER, &linger, sizeof linger);
    zmq_send(client->heart, "", 0, ZMQ_DONTWAIT);
    pthread_join(client->thread, NULL);
    zmq_close(client->heart);
    client->heart = NULL;
}

/* --- the outbox: two files written in turn, so that a torn write leaves the previous message -------------------- */

/* The format of the Python workers: number of the message u64, its length u32, CRC-32 of number and message, the
   message. */
#define OUTBOX_HEAD 16

/* Return the size of the longest RESET or STEP. */
static size_t longest_message(const flowsim_client *client) {
    return HEADER_SIZE + (size_t)client->environments * (9 + 8 * (size_t)client->observation_size);
}

/* Open and lock the files and allocate their space, so that a full disk is detected now. */
static bool open_outbox(flowsim_client *client, const char *path) {
    size_t length = strlen(path) + 3;
    char *name = malloc(length);
    int failed = name ? 0 : ENOMEM;
    for (int i = 0; i < 2 && !failed; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        snprintf(name, length, "%s.%d", path, i);
        client->outbox[i] = open(name, O_RDWR | O_CREAT, 0600);
        if (client->outbox[i] < 0 || fcntl(client->outbox[i], F_SETLK, &lock) != 0) failed = errno;
        else failed = posix_fallocate(client->outbox[i], 0, (off_t)(OUTBOX_HEAD + longest_message(client)));
    }
    free(name);
    errno = failed;
    return !failed;
}

/* Read the last complete message of the previous process; return its length, or 0 if there is none. */
static size_t recover(flowsim_client *client, unsigned char *frame, unsigned char *candidate) {
    size_t found = 0;
    for (int i = 0; i < 2; i++) {
        unsigned char head[OUTBOX_HEAD];
        if (pread(client->outbox[i], head, OUTBOX_HEAD, 0) != OUTBOX_HEAD) continue;
        uint64_t number = get_little(head, 8);
        size_t length = (size_t)get_little(head + 8, 4);
        if (!length || length > longest_message(client) || (found && number < client->kept)) continue;
        if (pread(client->outbox[i], candidate, length, OUTBOX_HEAD) != (ssize_t)length) continue;
        if (crc32(crc32(0, head, 8), candidate, length) != get_little(head + 12, 4)) continue;
        memcpy(frame, candidate, length);
        found = length;
        client->kept = number;
    }
    return found;
}

static bool write_at(int file, const unsigned char *bytes, size_t length, off_t offset) {
    while (length) {
        ssize_t written = pwrite(file, bytes, length, offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        offset += written;
        length -= (size_t)written;
    }
    return true;
}

/* Keep the current frame. Afterwards the operating system has the bytes, so they survive the process. */
static int keep(flowsim_client *client) {
    if (client->outbox[1] < 0) return FLOWSIM_OK;
    unsigned char head[OUTBOX_HEAD];
    int file = client->outbox[++client->kept % 2];
    put_little(head, client->kept, 8);
    put_little(head + 8, client->frame_length, 4);
    put_little(head + 12, crc32(crc32(0, head, 8), client->frame, client->frame_length), 4);
    if (write_at(file, head, OUTBOX_HEAD, 0) && write_at(file, client->frame, client->frame_length, OUTBOX_HEAD))
        return FLOWSIM_OK;
    return fail(client, "the outbox cannot be written: %s", strerror(errno));
}

/* --- the worker of the state table ------------------------------------------------------------------------- */

static const unsigned char *body_of(flowsim_client *client) {
    return (const unsigned char *)zmq_msg_data(&client->incoming) + HEADER_SIZE;
}

static size_t body_length(flowsim_client *client) {
    return zmq_msg_size(&client->incoming) - HEADER_SIZE;
}

static int end(flowsim_client *client, const struct header *header) {
    struct text reason = {"", 0};
    client->dismissed = header->kind == REJECT; /* other messages are answered with a farewell */
    if (!read_reason(body_of(client), body_length(client), &reason))
        return fail(client, "the learner's last message is malformed");
    char sentence[MAX_FAILURE + 1];
    copy_text(sentence, sizeof sentence, reason.begin, reason.length);
    if (header->kind != GOODBYE)
        return fail(client, "the learner %s this worker: %s", header->kind == REJECT ? "refused" : "ended", sentence);
    memcpy(client->error, sentence, sizeof sentence);
    return client->outcome = FLOWSIM_OVER;
}

/* Message that arrived while the client waited: ANSWERED is a WELCOME, ACTION or PAUSE, OTHER is already handled. */
enum came { NOTHING, OTHER, ANSWERED };

/* Wait until a given time for a WELCOME, ACTION or PAUSE, which is then in client->incoming. All other messages are
 * handled here; a malformed frame is dropped like a lost one, and is not a sign of life. */
static int receive(flowsim_client *client, double until, struct header *header, enum came *came) {
    zmq_pollitem_t items[2] = {{client->line.socket, 0, ZMQ_POLLIN, 0}, {client->heart, 0, ZMQ_POLLIN, 0}};
    int count = client->heart ? 2 : 1;
    double seconds = until - now();
    *came = NOTHING;
    int ready = zmq_poll(items, count, seconds > 0 ? (long)ceil(1000 * seconds) : 0);
    if (ready == 0 && now() > until + STOOD_STILL) ready = zmq_poll(items, count, LOOK_AGAIN);
    if (ready < 0)
        return errno == EINTR ? FLOWSIM_OK : fail(client, "waiting for the learner failed: %s", zmq_strerror(errno));
    for (int i = 0; i < 2; i++) {
        if (!items[i].revents) continue;
        *came = OTHER;
        const char *misread = take_frame(items[i].socket, &client->incoming, header);
        if (misread) {
            client->misread = misread;
            return FLOWSIM_OK;
        }
        bool ends = header->kind == REJECT || header->kind == ERROR || header->kind == GOODBYE;
        if (client->welcome.session && header->session != client->welcome.session && !(ends && !header->session))
            return FLOWSIM_OK; /* of an earlier session, over a connection that this process did not make */
        note_heard(client);
        if (header->kind == ERROR && header->sequence && header->sequence < client->sequence)
            return FLOWSIM_OK; /* it concerns a late copy of a message that was answered */
        /* it arrived over the heartbeat connection: this connection may still lead to a previous learner */
        if (ends && i == 1 && header->kind == GOODBYE)
            renew_line(&client->line, client->context, client->connection_file);
        if (ends) return end(client, header);
        if (header->kind == WELCOME || header->kind == ACTION || header->kind == PAUSE) *came = ANSWERED;
        return FLOWSIM_OK;
    }
    return FLOWSIM_OK;
}

static int check_patience(flowsim_client *client, double silence, double patience) {
    if (silence < patience) return FLOWSIM_OK;
    const char *but = client->misread ? "; the last frame that came was dropped: " : "";
    return fail(client, "the learner at %s was silent for %.1f s%s%s", client->line.connection.endpoint, silence, but,
                client->misread ? client->misread : "");
}

/* Write the frame of HELLO; the buffer of the client is long enough (buffer_size). */
static void write_hello(flowsim_client *client, uint64_t pid, const char *host, const unsigned char *recovered,
                        size_t recovered_length) {
    struct writer writer = {client->frame + HEADER_SIZE};
    write_map_of(&writer, 11);
    write_text(&writer, "versions");
    *writer.at++ = 0x92;
    write_integer(&writer, VERSION_MAJOR);
    write_integer(&writer, VERSION_MAJOR);
    write_text(&writer, "incarnation");
    write_integer(&writer, client->incarnation);
    write_text(&writer, "slot");
    if (client->slot < 0) *writer.at++ = 0xc0;
    else write_integer(&writer, (uint64_t)client->slot);
    write_text(&writer, "pid");
    write_integer(&writer, pid);
    write_text(&writer, "host");
    write_text(&writer, host);
    write_text(&writer, "environments");
    write_integer(&writer, (uint64_t)client->environments);
    write_text(&writer, "observation_size");
    write_integer(&writer, (uint64_t)client->observation_size);
    write_text(&writer, "action_low");
    write_array_of(&writer, client->low, (size_t)client->action_size);
    write_text(&writer, "action_high");
    write_array_of(&writer, client->high, (size_t)client->action_size);
    write_text(&writer, "task_hash");
    write_text(&writer, client->line.connection.task_hash);
    write_text(&writer, "recovered");
    write_binary(&writer, recovered, recovered_length);
    struct header header = {.kind = HELLO};
    client->frame_length = (size_t)(writer.at - client->frame);
    seal(client->frame, &header, client->frame_length - HEADER_SIZE);
}

/* Send HELLO until the learner answers, waiting a little longer each time. */
static int join(flowsim_client *client) {
    double began = now(), wait = SHORTEST_WAIT, again = began;
    int broken_off = 0;
    client->line.watched = true;
    for (;;) {
        struct header header;
        enum came came;
        double time = now(), last = began + client->line.connection.patience;
        int code = check_patience(client, time - began, client->line.connection.patience);
        if (!code && time >= again) {
            if (client->line.socket && wait < FIRST_RESEND) /* a handshake may take a while */
                zmq_send(client->line.socket, client->frame, client->frame_length, ZMQ_DONTWAIT);
            else code = send_anew(client);
            again = time + jitter(client, wait);
            wait = longer(wait);
        }
        if (!code) code = receive(client, again < last ? again : last, &header, &came);
        if (code) return code;
        const char *why = refusal(&client->line, &broken_off);
        if (why)
            return fail(client, "the learner at %s %s; use the connection file of the run's present start",
                        client->line.connection.endpoint, why);
        if (came == ANSWERED && header.kind == PAUSE) { /* it is not known yet whether the slot is free */
            again = now() + ASK_AGAIN;
            wait = SHORTEST_WAIT;
        }
        if (came != ANSWERED || header.kind != WELCOME) continue;
        struct welcome welcome = {.seeds = {client->seeds, (size_t)client->environments, 0}};
        if (!read_welcome(body_of(client), body_length(client), &welcome)
            || welcome.version != VERSION_MAJOR || (int)welcome.seeds.count != client->environments)
            return fail(client, "the learner's WELCOME is malformed");
        client->welcome = welcome;
        client->line.watched = false;
        return FLOWSIM_OK;
    }
}

/* Send the current frame and wait for the ACTION that answers it. */
static int ask(flowsim_client *client, float *actions) {
    int code = keep(client);
    if (code) return code;
    double began = now(), answered = began, wait = FIRST_RESEND, again = began + jitter(client, wait);
    size_t count = (size_t)client->environments * (size_t)client->action_size;
    zmq_send(client->line.socket, client->frame, client->frame_length, ZMQ_DONTWAIT);
    for (;;) {
        struct header header;
        enum came came;
        double time = now(), silence = time - last_heard(client);
        code = check_patience(client, silence, client->welcome.patience);
        if (!code && time - answered > client->welcome.patience)
            code = fail(client, "the learner at %s gives signs of life, but did not answer message %llu for %.1f s",
                        client->line.connection.endpoint, (unsigned long long)client->sequence, time - answered);
        double last = time - silence + client->welcome.patience;
        if (!code) code = receive(client, again < last ? again : last, &header, &came);
        /* only if nothing has arrived by then, because later messages over the old connection are lost */
        if (!code && came == NOTHING && now() >= again) {
            code = send_anew(client);
            wait = longer(wait);
            again = now() + jitter(client, wait);
            pthread_mutex_lock(&client->lock);
            client->life.resends++;
            pthread_mutex_unlock(&client->lock);
        }
        if (code) return code;
        if (came != ANSWERED || header.kind == WELCOME || header.acknowledgement < client->sequence) continue;
        if (header.acknowledgement > client->sequence)
            return fail(client, "the learner answers a message that was not sent");
        if (header.kind == PAUSE) {
            answered = now();
            again = answered + LONGEST_WAIT;
            continue;
        }
        if (header.sequence != client->sequence || header.environments != (uint32_t)client->environments
            || !read_actions(body_of(client), body_length(client), count, actions))
            return fail(client, "the learner's ACTION is malformed");
        break;
    }
    for (size_t i = 0; i < count; i++) {
        size_t column = i % (size_t)client->action_size;
        if (actions[i] < client->low[column]) actions[i] = (float)client->low[column];
        if (actions[i] > client->high[column]) actions[i] = (float)client->high[column];
    }
    pthread_mutex_lock(&client->lock);
    client->life.delays[client->life.asked++ % DELAYS] = now() - began;
    client->life.step_began = now();
    pthread_mutex_unlock(&client->lock);
    return FLOWSIM_OK;
}

/* Number the message whose body ends at body_end, and turn it into a frame. */
static void make_next(flowsim_client *client, enum kind kind, const unsigned char *body_end) {
    struct header header = {
        .kind = kind,
        .session = client->welcome.session,
        .sequence = ++client->sequence,
        .environments = (uint32_t)client->environments,
        .clock = nanoseconds(),
    };
    client->frame_length = (size_t)(body_end - client->frame);
    seal(client->frame, &header, client->frame_length - HEADER_SIZE);
}

static bool finite_row(const flowsim_client *client, const float *rows, int environment) {
    const float *row = rows + (size_t)environment * (size_t)client->observation_size;
    for (int i = 0; i < client->observation_size; i++)
        if (!isfinite(row[i])) return false;
    return true;
}

static unsigned char *put_row(const flowsim_client *client, unsigned char *at, const float *rows, int environment) {
    const float *row = rows + (size_t)environment * (size_t)client->observation_size;
    for (int i = 0; i < client->observation_size; i++) at = put_float(at, row[i]);
    return at;
}

static void write_reset(flowsim_client *client, const float *observations) {
    unsigned char *at = client->frame + HEADER_SIZE;
    for (int i = 0; i < client->environments; i++) at = put_row(client, at, observations, i);
    make_next(client, RESET, at);
}

static void write_step(flowsim_client *client, const double *rewards, const float *observations,
                       const float *final_observations, const int *status) {
    int n = client->environments;
    unsigned char *at = client->frame + HEADER_SIZE;
    for (int i = 0; i < n; i++) at = put_double(at, rewards[i]);
    for (int i = 0; i < n; i++) at = put_row(client, at, observations, i);
    for (int i = 0; i < n; i++)
        if (status[i] & (FLOWSIM_TERMINATED | FLOWSIM_TRUNCATED)) at = put_row(client, at, final_observations, i);
    for (int i = 0; i < n; i++) *at++ = (unsigned char)status[i];
    make_next(client, STEP, at);
}

/* --- public functions ---------------------------------------------------------------------------------------- */

/* Return the size of the longest frame, a HELLO with the longest recovered message. */
static size_t buffer_size(const flowsim_client *client) {
    return HEADER_SIZE + 1024 + strlen(client->line.connection.task_hash) + 18 * (size_t)client->action_size
           + longest_message(client);
}

static int check_sizes(flowsim_client *client, const double *low, const double *high) {
    if (client->slot < -1 || client->slot >= MOST)
        return fail(client, "slot = %d must be in [0, %d), or -1 for any", client->slot, MOST);
    const struct {
        const char *name;
        int value;
    } sizes[] = {
        {"environments", client->environments},
        {"observation_size", client->observation_size},
        {"action_size", client->action_size},
    };
    for (int i = 0; i < 3; i++)
        if (sizes[i].value < 1 || sizes[i].value > MOST)
            return fail(client, "%s = %d must be in [1, %d]", sizes[i].name, sizes[i].value, MOST);
    /* in floating point, to avoid overflow */
    if ((double)client->environments * (9.0 + 8.0 * client->observation_size) > MAX_BODY
        || 4.0 * client->environments * client->action_size > MAX_BODY)
        return fail(client, "a message of %d environments would be too long", client->environments);
    for (int i = 0; i < client->action_size; i++)
        if (!(fabs(low[i]) <= FLT_MAX && fabs(high[i]) <= FLT_MAX && low[i] < high[i]))
            return fail(client, "the bounds of number %d of an action are [%g, %g]", i, low[i], high[i]);
    return FLOWSIM_OK;
}

static int prepare(flowsim_client *client, const char *connection_file, const double *low, const double *high,
                   const char *outbox) {
    int code = check_sizes(client, low, high);
    if (code) return code;
    const char *wrong = read_connection(connection_file, &client->line.connection);
    if (wrong) return fail(client, "%s cannot be used: %s", connection_file, wrong);
    size_t bounds = (size_t)client->action_size * sizeof *low;
    client->low = malloc(bounds);
    client->high = malloc(bounds);
    client->seeds = calloc((size_t)client->environments, sizeof *client->seeds);
    client->frame = malloc(buffer_size(client));
    client->connection_file = malloc(strlen(connection_file) + 1);
    client->context = zmq_ctx_new();
    if (!client->low || !client->high || !client->seeds || !client->frame || !client->connection_file
        || !client->context)
        return fail(client, "there is no memory for %d environments", client->environments);
    strcpy(client->connection_file, connection_file);
    for (int i = 0; i < client->action_size; i++) { /* the learner stores them in single precision */
        client->low[i] = (float)low[i];
        client->high[i] = (float)high[i];
    }
    if (outbox && !open_outbox(client, outbox))
        return fail(client, "the outbox %s cannot be opened, or is in use by another worker: %s", outbox,
                    strerror(errno));
    return FLOWSIM_OK;
}

int flowsim_open(flowsim_client **opened, const char *connection_file, int slot, int environments,
                 int observation_size, int action_size, const double *low, const double *high, const char *outbox) {
    flowsim_client *client = *opened = calloc(1, sizeof *client);
    if (!client) return FLOWSIM_BROKEN;
    client->slot = slot;
    client->environments = environments;
    client->observation_size = observation_size;
    client->action_size = action_size;
    client->incarnation = draw_number();
    client->chance = client->incarnation;
    client->outbox[0] = client->outbox[1] = -1;
    pthread_mutex_init(&client->lock, NULL);
    zmq_msg_init(&client->incoming);
    int code = prepare(client, connection_file, low, high, outbox);
    if (code) return code;

    char name[256] = "", host[256];
    gethostname(name, sizeof name - 1);
    copy_text(host, sizeof host, name, strlen(name));
    unsigned char *recovered = malloc(2 * longest_message(client));
    if (!recovered) return fail(client, "there is no memory for the outbox");
    size_t length = outbox ? recover(client, recovered, recovered + longest_message(client)) : 0;
    write_hello(client, (uint64_t)getpid(), host, recovered, length);
    free(recovered);
    code = join(client);
    return code ? code : start_heart(client);
}

int64_t flowsim_seed(const flowsim_client *client, int environment) {
    return client && client->seeds && environment >= 0 && environment < client->environments
               ? client->seeds[environment]
               : -1;
}

int flowsim_reset(flowsim_client *client, const float *observations, float *actions) {
    if (client->outcome) return client->outcome;
    if (client->sequence) return refuse(client, "flowsim_reset is called once, before all steps");
    for (int i = 0; i < client->environments; i++)
        if (!finite_row(client, observations, i))
            return refuse(client, "an observation of environment %d is not finite", i);
    write_reset(client, observations);
    return ask(client, actions);
}

static int check_step(flowsim_client *client, const double *rewards, const float *observations,
                      const float *final_observations, const int *status) {
    for (int i = 0; i < client->environments; i++) {
        bool ended = status[i] & (FLOWSIM_TERMINATED | FLOWSIM_TRUNCATED);
        if (status[i] < 0 || status[i] > FLOWSIM_FAILED || status[i] == FLOWSIM_DIVERGED)
            return refuse(client, "environment %d has a status %d that there is not", i, status[i]);
        if (!(fabs(rewards[i]) <= FLT_MAX) || (status[i] == FLOWSIM_FAILED && rewards[i] != 0))
            return refuse(client, "the reward %g of environment %d cannot be given", rewards[i], i);
        if (ended && !final_observations)
            return refuse(client, "environment %d ended without a final observation", i);
        if (!finite_row(client, observations, i) || (ended && !finite_row(client, final_observations, i)))
            return refuse(client, "an observation of environment %d is not finite", i);
    }
    return FLOWSIM_OK;
}

int flowsim_step(flowsim_client *client, const double *rewards, const float *observations,
                 const float *final_observations, const int *status, float *actions) {
    if (client->outcome) return client->outcome;
    if (!client->sequence) return refuse(client, "flowsim_step is called after flowsim_reset");
    int code = check_step(client, rewards, observations, final_observations, status);
    if (code) return code;
    int failures = 0;
    for (int i = 0; i < client->environments; i++) failures += status[i] == FLOWSIM_FAILED;
    pthread_mutex_lock(&client->lock);
    client->life.steps++;
    client->life.step_began = 0;
    client->life.failures += (uint64_t)failures;
    pthread_mutex_unlock(&client->lock);
    write_step(client, rewards, observations, final_observations, status);
    return ask(client, actions);
}

void flowsim_explain(flowsim_client *client, const char *reason) {
    pthread_mutex_lock(&client->lock);
    copy_text(client->life.failure, sizeof client->life.failure, reason, strlen(reason));
    pthread_mutex_unlock(&client->lock);
}

const char *flowsim_error(const flowsim_client *client) {
    return client ? client->error : "there is no memory for a client";
}

/* Write the frame of ERROR or GOODBYE. */
static size_t write_farewell(unsigned char *frame, enum kind kind, uint64_t session, const char *reason) {
    struct writer writer = {frame + HEADER_SIZE};
    struct header header = {.kind = kind, .session = session};
    write_map_of(&writer, 1);
    write_text(&writer, "reason");
    write_text(&writer, reason);
    seal(frame, &header, (size_t)(writer.at - frame) - HEADER_SIZE);
    return (size_t)(writer.at - frame);
}

/* Tell the learner that this worker leaves, unless the learner dismissed it. */
static void say_farewell(flowsim_client *client, const char *reason) {
    if (!client->line.socket || !client->welcome.session || client->dismissed) return;
    if (!reason && client->outcome == FLOWSIM_BROKEN) reason = client->error;
    char text[MAX_FAILURE + 1];
    unsigned char frame[HEADER_SIZE + sizeof text + 32];
    int linger = 1000; /* milliseconds for the message to be sent */
    const char *word = reason ? reason : "the worker leaves the run";
    copy_text(text, sizeof text, word, strlen(word));
    size_t length = write_farewell(frame, reason ? ERROR : GOODBYE, client->welcome.session, text);
    zmq_setsockopt(client->line.socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_send(client->line.socket, frame, length, ZMQ_DONTWAIT);
}

void flowsim_close(flowsim_client *client, const char *reason) {
    if (!client) return;
    stop_heart(client);
    say_farewell(client, reason);
    close_line(&client->line);
    zmq_msg_close(&client->incoming);
    if (client->context)
        while (zmq_ctx_term(client->context) != 0 && errno == EINTR) continue;
    for (int i = 0; i < 2; i++)
        if (client->outbox[i] >= 0) close(client->outbox[i]);
    pthread_mutex_destroy(&client->lock);
    free_connection(&client->line.connection);
    free_connection(&client->heart_line.connection);
    free(client->connection_file);
    free(client->low);
    free(client->high);
    free(client->seeds);
    free(client->frame);
    free(client);
}
