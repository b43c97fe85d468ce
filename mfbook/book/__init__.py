"""What only the book needs: tasks, experiments, sweeps, what a chapter prints and draws.

The package computes without it.
"""
