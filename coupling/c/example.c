/* example.c: balls on a hill, an environment in C that learns through flowsim.
 *
 *     example CONNECTION_FILE [SLOT [ENVIRONMENTS [OUTBOX]]]
 *
 * A ball lies on top of a hill, and gravity pulls it away from there, x'' = x - v/10 + 2 a; the action a in [-1, 1]
 * has to hold it there. The observation is x and v, the reward 1 - x^2 for each step of 0.05. An episode is terminated
 * when the ball has rolled beyond |x| = 1, and truncated after 100 steps. The run's preset declares the same spaces:
 *
 *     env: flowsim/External-v0
 *     env_options: {observation_size: 2, action_low: [-1.0], action_high: [1.0]}
 *
 * Every episode is reported on one line; those still running when the learner sends GOODBYE are reported as open. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "flowsim_client.h"

enum { OBSERVATION_SIZE = 2, ACTION_SIZE = 1, MOST_ENVIRONMENTS = 64, LONGEST_EPISODE = 100 };

struct ball {
    double x, v;
    uint64_t random; /* state of its random number generator */
    int steps;
    double total; /* reward of the episode so far */
};

/* Uniform in [-1, 1] (splitmix64). */
static double uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 4503599627370496.0 - 1.0;
}

static void begin_episode(struct ball *ball) {
    ball->x = 0.1 * uniform(&ball->random);
    ball->v = 0.1 * uniform(&ball->random);
    ball->steps = 0;
    ball->total = 0.0;
}

static void observe(const struct ball *ball, float *observation) {
    observation[0] = (float)ball->x;
    observation[1] = (float)ball->v;
}

/* One step of semi-implicit Euler; returns the reward. */
static double roll(struct ball *ball, float action) {
    const double dt = 0.05;
    ball->v += dt * (ball->x - 0.1 * ball->v + 2.0 * action);
    ball->x += dt * ball->v;
    double reward = 1.0 - ball->x * ball->x;
    ball->steps++;
    ball->total += reward;
    return reward;
}

static void report(int environment, const struct ball *ball, const char *how) {
    printf("environment %d steps %d return %.17g %s\n", environment, ball->steps, ball->total, how);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static struct ball balls[MOST_ENVIRONMENTS];
    static float observations[MOST_ENVIRONMENTS][OBSERVATION_SIZE], final[MOST_ENVIRONMENTS][OBSERVATION_SIZE];
    static float actions[MOST_ENVIRONMENTS][ACTION_SIZE];
    static double rewards[MOST_ENVIRONMENTS];
    static int status[MOST_ENVIRONMENTS];
    const double low[ACTION_SIZE] = {-1.0}, high[ACTION_SIZE] = {1.0};
    int slot = argc > 2 ? atoi(argv[2]) : -1, n = argc > 3 ? atoi(argv[3]) : 1;
    if (argc < 2 || argc > 5 || n < 1 || n > MOST_ENVIRONMENTS) {
        fprintf(stderr, "example CONNECTION_FILE [SLOT [ENVIRONMENTS [OUTBOX]]], up to %d environments\n",
                MOST_ENVIRONMENTS);
        return 2;
    }

    flowsim_client *client;
    int code = flowsim_open(&client, argv[1], slot, n, OBSERVATION_SIZE, ACTION_SIZE, low, high,
                            argc > 4 ? argv[4] : NULL);
    for (int i = 0; i < n && code == FLOWSIM_OK; i++) {
        balls[i].random = (uint64_t)flowsim_seed(client, i);
        begin_episode(&balls[i]);
        observe(&balls[i], observations[i]);
    }
    if (code == FLOWSIM_OK) code = flowsim_reset(client, observations[0], actions[0]);
    while (code == FLOWSIM_OK) {
        for (int i = 0; i < n; i++) {
            rewards[i] = roll(&balls[i], actions[i][0]);
            status[i] = balls[i].x < -1.0 || balls[i].x > 1.0     ? FLOWSIM_TERMINATED
                        : balls[i].steps == LONGEST_EPISODE ? FLOWSIM_TRUNCATED
                                                            : FLOWSIM_GOES_ON;
            if (status[i] != FLOWSIM_GOES_ON) {
                report(i, &balls[i], status[i] == FLOWSIM_TERMINATED ? "terminated" : "truncated");
                observe(&balls[i], final[i]);
                begin_episode(&balls[i]);
            }
            observe(&balls[i], observations[i]);
        }
        code = flowsim_step(client, rewards, observations[0], final[0], status, actions[0]);
    }
    for (int i = 0; i < n && code == FLOWSIM_OVER; i++) report(i, &balls[i], "open");
    if (code == FLOWSIM_BROKEN) fprintf(stderr, "example: %s\n", flowsim_error(client));
    flowsim_close(client, NULL);
    return code == FLOWSIM_OVER ? 0 : 1;
}
