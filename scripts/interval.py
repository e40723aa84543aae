"""A mean with its 95 % interval."""

import statistics

# Student's distribution at 0.975, 1 to 20 degrees of freedom; more are counted as 20.
STUDENT = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09]


def interval(values, digits=3):
    """Mean and half the width of its 95 % interval, by Student's distribution; of one value, that."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else ""
    factor = STUDENT[min(len(values) - 1, len(STUDENT)) - 1]
    return f"{statistics.mean(values):.{digits}f} ± {factor * statistics.stdev(values) / len(values) ** 0.5:.{digits}f}"
