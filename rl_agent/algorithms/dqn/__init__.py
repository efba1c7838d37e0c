"""DQN and Rainbow."""
