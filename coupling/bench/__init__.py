"""Speed of the service and of the learner on this machine, as measured by `flowsim bench`."""
