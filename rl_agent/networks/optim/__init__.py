"""Adam, gradient steps, the target network and the average of the policy."""
