/* The C client's reading and writing of frames, for test_c_client.py: a command a line on stdin, an answer a line.
 *
 *     read HEX    what the frame says, as JSON, or {"refused": why}; bodies of those messages that a client gets
 *     write TYPE SESSION SEQUENCE CLOCK ...    the frame in hex, of those messages that a client sends */
#include "flowsim_client.c"

enum { ENVIRONMENTS = 2, OBSERVATION_SIZE = 3, ACTION_SIZE = 2, LONGEST = 8192 };

static const char *const names[] = {"", "HELLO", "WELCOME", "REJECT", "RESET", "STEP", "ACTION", "HEARTBEAT",
                                    "PAUSE", "ERROR", "GOODBYE", "STATUS", "STATUS_REPLY"};

static size_t from_hex(const char *hex, unsigned char *bytes) {
    size_t length = 0;
    unsigned value;
    for (; length < LONGEST && sscanf(hex + 2 * length, "%2x", &value) == 1; length++)
        bytes[length] = (unsigned char)value;
    return length;
}

static void print_hex(const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
}

static bool print_body(enum kind kind, const unsigned char *body, size_t length) {
    int64_t seeds[ENVIRONMENTS];
    float actions[ENVIRONMENTS * ACTION_SIZE];
    struct welcome welcome = {.seeds = {seeds, ENVIRONMENTS, 0}};
    struct text reason;
    switch (kind) {
        case WELCOME:
            if (!read_welcome(body, length, &welcome) || welcome.seeds.count != 2) return false;
            printf(", \"version\": %llu, \"session\": %llu", (unsigned long long)welcome.version,
                   (unsigned long long)welcome.session);
            printf(", \"slot\": %llu, \"first_agent\": %llu", (unsigned long long)welcome.slot,
                   (unsigned long long)welcome.first_agent);
            printf(", \"seeds\": [%lld, %lld]", (long long)seeds[0], (long long)seeds[1]);
            printf(", \"heartbeat\": %.17g, \"patience\": %.17g", welcome.heartbeat, welcome.patience);
            return true;
        case REJECT:
        case PAUSE:
        case ERROR:
        case GOODBYE:
            if (!read_reason(body, length, &reason)) return false;
            printf(", \"reason\": \"");
            print_hex(reason.begin, reason.length);
            printf("\"");
            return true;
        case ACTION:
            if (!read_actions(body, length, ENVIRONMENTS * ACTION_SIZE, actions)) return false;
            printf(", \"actions\": [[%.9g, %.9g], [%.9g, %.9g]]", actions[0], actions[1], actions[2], actions[3]);
            return true;
        default: return true;
    }
}

static void answer_read(const char *hex) {
    static unsigned char frame[LONGEST];
    struct header header;
    size_t length = from_hex(hex, frame);
    const char *refused = read_header(frame, length, &header);
    if (refused) {
        printf("{\"refused\": \"%s\"}\n", refused);
        return;
    }
    printf("{\"type\": \"%s\", \"header\": {\"session\": %llu, \"sequence\": %llu, \"acknowledgement\": %llu, ",
           names[header.kind], (unsigned long long)header.session, (unsigned long long)header.sequence,
           (unsigned long long)header.acknowledgement);
    printf("\"first\": %u, \"environments\": %u, \"clock\": %llu, \"epoch\": %u}, \"body\": {\"read\": true",
           header.first, header.environments, (unsigned long long)header.clock, header.epoch);
    printf(print_body(header.kind, frame + HEADER_SIZE, length - HEADER_SIZE) ? "}}\n"
                                                                              : "}, \"refused\": \"its body\"}\n");
}

/* The next word of the line. */
static char *word(void) {
    char *next = strtok(NULL, " \n");
    return next ? next : "";
}

static void numbers(double *values, int count) {
    for (int i = 0; i < count; i++) values[i] = strtod(word(), NULL);
}

static void rows(float *values, int count) {
    for (int i = 0; i < count; i++) values[i] = strtof(word(), NULL);
}

static void hex_text(char *text, size_t room) {
    unsigned char bytes[LONGEST];
    size_t length = from_hex(word(), bytes);
    copy_text(text, room, (char *)bytes, bytes[0] ? length : 0);
}

static void answer_write(void) {
    static unsigned char frame[LONGEST], recovered[LONGEST];
    double low[ACTION_SIZE], high[ACTION_SIZE], rewards[ENVIRONMENTS], given[3];
    float observations[ENVIRONMENTS * OBSERVATION_SIZE], ends[ENVIRONMENTS * OBSERVATION_SIZE];
    int status[ENVIRONMENTS];
    char text[LONGEST], hash[LONGEST];
    flowsim_client client = {
        .environments = ENVIRONMENTS, .observation_size = OBSERVATION_SIZE, .action_size = ACTION_SIZE,
        .low = low, .high = high, .frame = frame, .line = {.connection = {.task_hash = hash}},
    };
    struct header header = {.kind = HELLO};
    struct writer writer = {frame + HEADER_SIZE};
    const char *type = word();
    while (strcmp(names[header.kind], type) != 0) header.kind++;
    client.welcome.session = header.session = strtoull(word(), NULL, 10);
    header.sequence = strtoull(word(), NULL, 10);
    client.sequence = header.sequence - 1;
    header.clock = strtoull(word(), NULL, 10);
    switch (header.kind) {
        case HELLO:
            client.incarnation = strtoull(word(), NULL, 10);
            client.slot = atoi(word());
            uint64_t pid = strtoull(word(), NULL, 10);
            hex_text(text, sizeof text);
            numbers(low, ACTION_SIZE);
            numbers(high, ACTION_SIZE);
            hex_text(hash, sizeof hash);
            write_hello(&client, pid, text, recovered, from_hex(word(), recovered));
            break;
        case RESET:
            rows(observations, ENVIRONMENTS * OBSERVATION_SIZE);
            write_reset(&client, observations);
            break;
        case STEP:
            for (int i = 0; i < ENVIRONMENTS; i++) status[i] = atoi(word());
            numbers(rewards, ENVIRONMENTS);
            rows(observations, ENVIRONMENTS * OBSERVATION_SIZE);
            for (int i = 0; i < ENVIRONMENTS; i++) /* a row for those that ended only */
                if (status[i] & 3) rows(ends + i * OBSERVATION_SIZE, OBSERVATION_SIZE);
            write_step(&client, rewards, observations, ends, status);
            break;
        case HEARTBEAT:
            client.life.steps = strtoull(word(), NULL, 10);
            client.life.resends = strtoull(word(), NULL, 10);
            client.life.failures = strtoull(word(), NULL, 10);
            numbers(given, 3);
            hex_text(client.life.failure, sizeof client.life.failure);
            write_heartbeat(&writer, &client.life, given[0], given[1], given[2]);
            client.frame_length = (size_t)(writer.at - frame);
            seal(frame, &header, client.frame_length - HEADER_SIZE);
            break;
        default:
            hex_text(text, sizeof text);
            client.frame_length = write_farewell(frame, header.kind, header.session, text);
    }
    /* the clock is the only thing that the client would not write again as it stands there */
    struct header written;
    if (read_header(frame, client.frame_length, &written)) abort();
    written.clock = header.clock;
    seal(frame, &written, client.frame_length - HEADER_SIZE);
    print_hex(frame, client.frame_length);
    printf("\n");
}

int main(void) {
    static char line[4 * LONGEST];
    while (fgets(line, sizeof line, stdin)) {
        const char *command = strtok(line, " \n");
        if (command && strcmp(command, "read") == 0) answer_read(word());
        else answer_write();
        fflush(stdout);
    }
    return 0;
}
