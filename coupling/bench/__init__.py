"""Speed of the service and of the learner on this machine, as `flowsim bench` measures it."""
