"""What scripts/plot and scripts/paper-page share in their pictures. Needs Debian's python3-matplotlib
(scripts/setup python3-matplotlib installs it)."""

import sys

try:
    import matplotlib
except ImportError:
    sys.exit("there is no matplotlib; run scripts/setup python3-matplotlib")

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "circulant"  # the same rows give the same file
from matplotlib import pyplot  # noqa: E402

# Okabe and Ito's colours, which stay apart for the colour-blind.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
FORMATS = ["svg", "png"]


def save(figure, folder, name):
    for suffix in FORMATS:
        metadata = {"Date": None} if suffix == "svg" else {}
        figure.savefig(folder / f"{name}.{suffix}", dpi=120, bbox_inches="tight", metadata=metadata)
    pyplot.close(figure)
    print(folder / f"{name}.{FORMATS[0]}")
