"""Run an attack in a process of its own, which holds what its adversary observes and can reach nothing else."""
