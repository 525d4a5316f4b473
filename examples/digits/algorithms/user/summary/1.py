"""Compares the predictions of two classifiers, and of both together, with the truth."""

import numpy as np

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


class Algorithm:
    """Looks at the test part only."""

    def process(self, data_loaders, output):
        loader = data_loaders.loaderOf("label")
        units = [loader[i][0] for i in range(loader.count())]
        tested = [unit for unit in units if not unit["part"].train]
        if not tested:
            raise ValueError("no image is in the part to test with")
        truth = np.array([unit["label"].value for unit in tested])
        first = np.array([unit["first"].value for unit in tested])
        second = np.array([unit["second"].value for unit in tested])
        digits = sorted({int(unit["label"].value) for unit in units})
        both = self.together(tested, digits)
        counts = confusion(truth, both, digits)
        output.write(
            {
                "accuracy": np.float32((both == truth).mean()),
                "accuracy_first": np.float32((first == truth).mean()),
                "accuracy_second": np.float32((second == truth).mean()),
                "images": np.int32(len(tested)),
                "confusion": table(counts, digits),
                "confusion_plot": confusion_plot(counts, digits),
                "recall_plot": recall_plot(
                    truth, {"first": first, "second": second, "both": both}, digits
                ),
            }
        )
        return True

    def together(self, tested, digits):
        """Return the digit with the highest sum of both classifiers' standardised scores."""
        total = sum(
            standardised([unit[name].scores for unit in tested]) for name in ("first", "second")
        )
        return np.array(digits)[total.argmax(axis=1)]


def standardised(scores):
    """Return scores with mean 0 and deviation 1, so that two kinds of scores can be added."""
    scores = np.array(scores)
    return (scores - scores.mean()) / scores.std()


def confusion(truth, predicted, digits):
    """Return how often each digit (row) was taken for each (column)."""
    return np.array(
        [[int(((truth == t) & (predicted == p)).sum()) for p in digits] for t in digits]
    )


def table(counts, digits):
    """Return the confusion matrix as a table."""
    return {
        "columns": ["truth", *(str(digit) for digit in digits)],
        "rows": [[str(digit), *row.tolist()] for digit, row in zip(digits, counts, strict=True)],
    }


def confusion_plot(counts, digits):
    """Return the confusion matrix as a Vega-Lite heat map."""
    values = [
        {"truth": truth, "predicted": predicted, "images": int(counts[i, j])}
        for i, truth in enumerate(digits)
        for j, predicted in enumerate(digits)
    ]
    axes = {
        "x": {"field": "predicted", "type": "ordinal", "title": "predicted"},
        "y": {"field": "truth", "type": "ordinal", "title": "truth"},
    }
    return {
        "$schema": SCHEMA,
        "title": "Confusion of digits",
        "width": 280,
        "height": 280,
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "rect", "tooltip": True},
                "encoding": {
                    **axes,
                    "color": {
                        "field": "images",
                        "type": "quantitative",
                        "scale": {"type": "symlog", "scheme": "blues"},
                    },
                },
            },
            {
                "transform": [{"filter": "datum.images > 0"}],
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    **axes,
                    "text": {"field": "images", "type": "quantitative"},
                    "color": {
                        "condition": {"test": "datum.images > 10", "value": "white"},
                        "value": "black",
                    },
                },
            },
        ],
    }


def recall_plot(truth, predictions, digits):
    """Return the share of each digit's images that was found, as Vega-Lite bars."""
    values = [
        {
            "digit": digit,
            "classifier": name,
            "recall": round(float((predicted[truth == digit] == digit).mean()), 4),
        }
        for digit in digits
        if (truth == digit).any()
        for name, predicted in predictions.items()
    ]
    return {
        "$schema": SCHEMA,
        "title": "Found images of each digit",
        "width": 420,
        "height": 200,
        "data": {"values": values},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": {"field": "digit", "type": "ordinal"},
            "xOffset": {"field": "classifier"},
            "y": {
                "field": "recall",
                "type": "quantitative",
                "scale": {"domain": [0.5, 1], "zero": False, "clamp": True},
            },
            "color": {"field": "classifier", "type": "nominal"},
        },
    }
