"""The square cylinder with two jets at its rear corners: task and presets."""
