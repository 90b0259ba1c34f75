"""Speed and quality side by side with peers."""
