/* flowsim_client.h: an existing solver becomes an environment of a flowsim run.
 *
 * One process hosts one or more environments and asks the learner for their actions:
 *
 *     flowsim_client *client;
 *     int code = flowsim_open(&client, "runs/mine/connection.json", -1, environments, observation_size, action_size,
 *                             low, high, NULL);
 *     ... begin an episode in each environment, seeded with flowsim_seed(client, i) ...
 *     if (code == FLOWSIM_OK) code = flowsim_reset(client, observations, actions);
 *     while (code == FLOWSIM_OK) {
 *         ... do one step of each environment with its actions; where an episode ended, begin the next ...
 *         code = flowsim_step(client, rewards, observations, final_observations, status, actions);
 *     }
 *     if (code == FLOWSIM_BROKEN) fprintf(stderr, "%s\n", flowsim_error(client));
 *     flowsim_close(client, NULL);
 *
 * Arrays go environment by environment. A client belongs to one thread; a thread of its own sends signs of life, so
 * that a step may take minutes. Nothing here aborts, prints or waits without a limit. PROTOCOL.md specifies the wire.
 *
 * C99 and POSIX; link with -lzmq -lpthread -lm. */
#ifndef FLOWSIM_CLIENT_H
#define FLOWSIM_CLIENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. */
enum {
    FLOWSIM_OK = 0,
    FLOWSIM_OVER = 1,   /* the learner said GOODBYE: the run is over or was stopped; close and exit with code 0 */
    FLOWSIM_BROKEN = -1 /* it cannot go on; flowsim_error says why; close and exit with code 1 */
};

/* How the step of an environment ended; add FLOWSIM_DIVERGED when an episode ended because its simulation blew up. */
enum {
    FLOWSIM_GOES_ON = 0,
    FLOWSIM_TERMINATED = 1,  /* by what happened: no reward can follow */
    FLOWSIM_TRUNCATED = 2,   /* by a limit of time: reward would have gone on */
    FLOWSIM_DIVERGED = 4,
    FLOWSIM_FAILED = 8       /* the step gave nothing that can be used; its reward is 0 */
};

typedef struct flowsim_client flowsim_client;

/* Find the learner and join its run; waits for the learner as long as connection.json says.
 *
 * slot            number of this worker, or -1 for any free one with as many environments
 * low, high       bounds of each number of an action, as the run's env_options give them
 * outbox          path before the ".0" and ".1" of two files in which the last message is kept, so that it survives
 *                 this process and the next one brings it; each worker has its own. Or NULL: then the death of the
 *                 process loses the step under way
 *
 * *client is NULL afterwards only when there is no memory. */
int flowsim_open(flowsim_client **client, const char *connection_file, int slot, int environments,
                 int observation_size, int action_size, const double *low, const double *high, const char *outbox);

/* Seed of an environment (from 0) for its first episode, not negative; -1 for one that there is not. */
int64_t flowsim_seed(const flowsim_client *client, int environment);

/* Give the first observations, [environments][observation_size]; get the first actions, [environments][action_size]. */
int flowsim_reset(flowsim_client *client, const float *observations, float *actions);

/* Give what one step of all environments brought; get the next actions, within the bounds.
 *
 * rewards             [environments]
 * observations        [environments][observation_size]; where an episode ended or failed, the first of the next one
 * final_observations  [environments][observation_size]; only the rows of episodes that ended are read: the
 *                     observation that ended them. May be NULL while none ends.
 * status              [environments], FLOWSIM_GOES_ON and so on
 *
 * Numbers that are not finite, rewards beyond single precision and statuses that there are not give FLOWSIM_BROKEN, and
 * nothing is sent: such an environment can be begun anew and the step be given again, with its status FLOWSIM_FAILED
 * and its reward 0. */
int flowsim_step(flowsim_client *client, const double *rewards, const float *observations,
                 const float *final_observations, const int *status, float *actions);

/* Say why environments have failed, for the people who run the learner; before the flowsim_step that reports them. */
void flowsim_explain(flowsim_client *client, const char *reason);

/* The sentence that belongs to the last FLOWSIM_BROKEN or FLOWSIM_OVER. */
const char *flowsim_error(const flowsim_client *client);

/* Leave the run and free everything. With a reason, the learner is told that this worker cannot go on and why. */
void flowsim_close(flowsim_client *client, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
