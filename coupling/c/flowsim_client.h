/* flowsim_client.h: make an existing solver an environment of a flowsim run.
 *
 * One process hosts one or more environments and asks the learner for their actions:
 *
 *     flowsim_client *client;
 *     int code = flowsim_open(&client, "runs/mine/connection.json", -1, environments, observation_size, action_size,
 *                             low, high, NULL);
 *     ... begin an episode in each environment, seeded with flowsim_seed(client, i) ...
 *     if (code == FLOWSIM_OK) code = flowsim_reset(client, observations, actions);
 *     while (code == FLOWSIM_OK) {
 *         ... do one step of each environment with its actions; if an episode ended, begin the next ...
 *         code = flowsim_step(client, rewards, observations, final_observations, status, actions);
 *     }
 *     if (code == FLOWSIM_BROKEN) fprintf(stderr, "%s\n", flowsim_error(client));
 *     flowsim_close(client, NULL);
 *
 * Arrays are ordered by environment. Use a client from one thread only; it sends heartbeats from its own thread, so
 * that a step may take minutes. No function aborts, prints or waits without a limit. PROTOCOL.md is the specification.
 *
 * C99 and POSIX; link with -lzmq -lpthread -lm. */
#ifndef FLOWSIM_CLIENT_H
#define FLOWSIM_CLIENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return values of the functions. */
enum {
    FLOWSIM_OK = 0,
    FLOWSIM_OVER = 1,   /* the learner sent GOODBYE: the run is over or was stopped; close and exit with code 0 */
    FLOWSIM_BROKEN = -1 /* the client cannot continue; flowsim_error says why; close and exit with code 1 */
};

/* Status of an environment after a step; add FLOWSIM_DIVERGED if an episode ended because its simulation diverged. */
enum {
    FLOWSIM_GOES_ON = 0,
    FLOWSIM_TERMINATED = 1,  /* terminal state: no reward can follow */
    FLOWSIM_TRUNCATED = 2,   /* time limit: rewards would have followed */
    FLOWSIM_DIVERGED = 4,
    FLOWSIM_FAILED = 8       /* the step has no usable result; its reward is 0 */
};

typedef struct flowsim_client flowsim_client;

/* Connect to the learner and join its run, waiting for the learner as long as connection.json specifies.
 *
 * slot            number of this worker, or -1 for any free one with as many environments
 * low, high       bounds of each component of an action, as in the run's env_options
 * outbox          path, without the suffixes ".0" and ".1", of two files that keep the last message, so that it
 *                 survives this process and the next one sends it; each worker needs its own. With NULL, the step in
 *                 progress is lost if the process dies
 *
 * *client is NULL afterwards only if there is no memory. */
int flowsim_open(flowsim_client **client, const char *connection_file, int slot, int environments,
                 int observation_size, int action_size, const double *low, const double *high, const char *outbox);

/* Return the seed (>= 0) of the first episode of an environment, counted from 0; -1 if there is no such environment. */
int64_t flowsim_seed(const flowsim_client *client, int environment);

/* Send the first observations, [environments][observation_size]; get the first actions, [environments][action_size]. */
int flowsim_reset(flowsim_client *client, const float *observations, float *actions);

/* Send the results of one step of all environments; get the next actions, within the bounds.
 *
 * rewards             [environments]
 * observations        [environments][observation_size]; if an episode ended or failed, the first of the next one
 * final_observations  [environments][observation_size]; the last observations of ended episodes; only their rows are
 *                     read. May be NULL if none ended.
 * status              [environments], FLOWSIM_GOES_ON and so on
 *
 * Non-finite numbers, rewards beyond single precision and invalid statuses return FLOWSIM_BROKEN, and nothing is sent:
 * the caller can then restart such an environment and call the function again, with its status FLOWSIM_FAILED and its
 * reward 0. */
int flowsim_step(flowsim_client *client, const double *rewards, const float *observations,
                 const float *final_observations, const int *status, float *actions);

/* Explain to the users of the learner why environments failed; call it before the flowsim_step that reports them. */
void flowsim_explain(flowsim_client *client, const char *reason);

/* Return the message of the last FLOWSIM_BROKEN or FLOWSIM_OVER. */
const char *flowsim_error(const flowsim_client *client);

/* Leave the run and free everything. With a reason, tell the learner that this worker cannot continue, and why. */
void flowsim_close(flowsim_client *client, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
