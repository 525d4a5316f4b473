"""The decisions of the scheduler: pure, with no clock, no await, no database."""
