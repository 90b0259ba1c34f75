"""X and y of any kind → scaled rows and targets that a network or a small tree is trained on."""
