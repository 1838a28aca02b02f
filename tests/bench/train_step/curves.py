"""Compares the loss curves of two contestants over several rounds, each with its own seed."""

import math
import statistics

WINDOWS = 10
MIN_WINDOW = 5  # steps
MAX_STEPS = 5000  # to compare
# How far apart two windows' mean losses may lie, in standard errors of their difference.
MAX_DEVIATION = 4


def squared_error(rounds):
    """Squared standard error of a window's mean loss over all rounds, from their spread or the batches', if larger."""
    means = [statistics.fmean(window) for window in rounds]
    between = statistics.variance(means) / len(means)
    within = statistics.fmean(statistics.variance(window) / len(window) for window in rounds) / len(rounds)
    return max(between, within)


class Comparison:
    """Compares losses, one list per round: window by window, and over all steps that both have trained."""

    def __init__(self, ours, theirs):
        self.steps = min(MAX_STEPS, *(len(losses) for losses in [*ours, *theirs]))
        windows = min(WINDOWS, self.steps // MIN_WINDOW)
        self.rows = []  # first step, end, mean losses, deviation in standard errors
        if windows == 0:
            return
        size = self.steps // windows
        for begin, end in [*((i * size, (i + 1) * size) for i in range(windows)), (0, self.steps)]:
            cut = [[losses[begin:end] for losses in rounds] for rounds in (ours, theirs)]
            means = [statistics.fmean(map(statistics.fmean, rounds)) for rounds in cut]
            error = math.sqrt(sum(map(squared_error, cut)))
            self.rows.append((begin, end, *means, (means[0] - means[1]) / error))

    @property
    def comparable(self):
        return bool(self.rows)

    @property
    def all_reduce_max(self):
        return all(abs(row[-1]) <= MAX_DEVIATION for row in self.rows)  # false for NaN

    def __str__(self):
        if not self.comparable:
            return f"too few steps ({self.steps})"
        largest = max((row[-1] for row in self.rows), key=lambda deviation: (math.isnan(deviation), abs(deviation)))
        return f"{'agree' if self.agree else 'DISAGREE'} ({largest:+.1f} s.e., {self.steps} steps)"

    def table(self):
        rows = (f"{begin + 1:>8}-{end:<6} {a:8.4f} {b:8.4f} {apart:+10.1f}" for begin, end, a, b, apart in self.rows)
        return "\n".join([f"{'steps':>15} {'giro':>8} {'peer':>8} {'deviation':>10}", *rows])
