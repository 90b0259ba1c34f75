"""A soak: kills and Ctrl-Cs at random moments, several writers, full disks, forks and threads.

    python -m tests.faults --seed 0 --count 50
    python -m tests.faults "save, killed" "fork" --count 10

Each part runs its trial `--count` times in a folder of its own and prints a row of tried and failed. Needs POSIX. A
full disk is a file system of its own in a file, where the machine lets one be mounted (root); otherwise a limit on the
size of files stands for it.
"""
