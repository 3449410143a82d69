# mypy: disallow-subclassing-any=False
"""The model, its training, and the made-up data: sentences on three topics, in everybody's own words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification

USERS = [f"user-{number:02}" for number in range(12)]
WORDS, TOPICS, LENGTH, SENTENCES = 120, 3, 10, 30


class Net(BertForSequenceClassification):
    """A very small BERT with random weights; a pretrained one would come from `from_pretrained`."""

    def __init__(self) -> None:
        super().__init__(
            BertConfig(
                vocab_size=WORDS,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=LENGTH,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                num_labels=TOPICS,
            )
        )

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Scores of the topics, as a tensor."""
        scores: torch.Tensor = super().forward(input_ids=input_ids).logits
        return scores


def draw(user: int, part: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sentences of a user; `part` names which: those that the client trains on, or older ones."""
    topics = np.random.default_rng([3]).dirichlet(np.full(WORDS - 1, 0.1), size=TOPICS)  # the same for everyone
    favourites = np.random.default_rng([3, user]).dirichlet(np.full(WORDS - 1, 0.05))  # of this user
    rng = np.random.default_rng([3, user, *part.encode()])
    y = np.arange(SENTENCES) % TOPICS
    x = [1 + rng.choice(WORDS - 1, size=LENGTH, p=0.6 * topics[topic] + 0.4 * favourites) for topic in y]
    return np.asarray(x, dtype=np.int64), y.astype(np.int64)


def train(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """Train on the data of one client: one epoch of Adam."""
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    net.train()
    for batch in torch.split(torch.randperm(len(x)), 10):
        optimizer.zero_grad()
        functional.cross_entropy(net(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
