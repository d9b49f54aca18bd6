"""`PushingTrainer`: the stock `Trainer`, whose pushes to the Hub hold only what may be public.

The stock one uploads the folder of the run as it is: `training_args.bin`, a pickle that can hold
the Hub token, predictions, logs and whatever else lies there, but not all that a checkpoint needs.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi, ModelCard
from torch import nn
from transformers import Trainer
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import HubStrategy
from transformers.utils.hub import PushInProgress

from ..evaluation.privacy import without_secrets
from ..hub.card import write_model_card
from ..hub.checks import check_label_names
from ..hub.public_files import CARD_NAME, read_public_files
from ..hub.push import ensure_branch, explained, refuse_public, send

logger = logging.getLogger(__name__)


class PushingTrainer(Trainer):
    """`transformers.Trainer` that publishes models and nothing else.

    What goes up is what `publishing` lists. `hub.push` checks more, a licence and a language among
    it, which a training run does not know.

    Args:
        model: As for `Trainer`.
        args: Likewise.
        **kwargs: Likewise.

    Raises:
        ValueError: If `push_to_hub` is asked for and `hub_strategy` would publish the states of an
            optimizer, the labels have no names, or the repository is to be private and there is a
            public one.
    """

    model: Any  # the base class promises less than a PreTrainedModel

    def __init__(self, model: nn.Module | None, args: Any, **kwargs: Any) -> None:
        if args.push_to_hub:
            if args.hub_strategy not in (HubStrategy.END, HubStrategy.EVERY_SAVE):
                raise ValueError(
                    f"hub_strategy {args.hub_strategy.value!r} would publish optimizer and random "
                    "states, which are pickles; choose 'end' or 'every_save'"
                )
            if model is not None:  # else `model_init` makes one later
                network: Any = model
                check_label_names(network.config)
        super().__init__(model, args, **kwargs)

    @cached_property
    def _api(self) -> HfApi:
        """The one client of all pushes: it sends them one after another."""
        return HfApi()

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Make the repository, and the branch that `args.hub_revision` names, if need be.

        Args:
            token: By default `args.hub_token`, or the one of this machine.
            private: Whether it is to be private; by default `args.hub_private_repo`.

        Raises:
            ValueError: If it is to be private and there is a public one.
            OSError: If the Hub refuses or cannot be reached.
        """
        token = token or self.args.hub_token
        with explained(str(self.args.hub_model_id or self.args.output_dir), "cannot be made"):
            # transformers 5.20 and below do not know the word, nor do their callers.
            super().init_hf_repo(token, **({} if private is None else {"private": private}))
        if self.is_world_process_zero():
            self._check_repository(self.args.hub_revision, token, private)

    def _check_repository(
        self, revision: str | None, token: str | None, private: bool | None
    ) -> None:
        name = str(self.hub_model_id)
        if self.args.hub_private_repo if private is None else private:
            refuse_public(self._api, name, token)
        if revision is not None:
            with explained(name, "cannot be pushed to"):
                ensure_branch(self._api, name, revision, token)

    def create_model_card(  # type: ignore[override]
        self,
        language: str | None = None,
        license: str | None = None,
        tags: str | Sequence[str] | None = None,
        finetuned_from: str | None = None,
        dataset_tags: str | Sequence[str] | None = None,
        **stock_fields: Any,
    ) -> None:
        """Write the card of the run's folder if it has none, and note what is given.

        Args:
            language: What the model reads, such as `en`.
            license: What its weights are under, such as `apache-2.0`.
            tags: Beside those of every card here.
            finetuned_from: The model on the Hub whose weights it began with.
            dataset_tags: The data sets on the Hub that it was trained on.
            **stock_fields: What else `Trainer.create_model_card` takes: title, task and names of
                data sets. The card has them from the record already.
        """
        if not self.is_world_process_zero():
            return
        path = Path(str(self.args.output_dir), CARD_NAME)
        if not path.is_file():
            write_model_card(path.parent, repo_id=self.hub_model_id)
        card = ModelCard.load(path)
        given = {
            "language": language,
            "license": license,
            "base_model": finetuned_from,
            "datasets": dataset_tags and _listed(dataset_tags),
            "tags": tags and [*(card.data.tags or []), *_listed(tags)],
        }
        for name, value in given.items():
            if value:
                setattr(card.data, name, value)
        card.save(path)

    def push_to_hub(  # type: ignore[override]
        self,
        commit_message: str = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **card_fields: Any,
    ) -> CommitInfo | Future[CommitInfo] | None:
        """Push the model, its tokenizer, its code and its card as one commit.

        Args:
            commit_message: What the history of the repository says.
            blocking: Wait until it is done.
            token: By default `args.hub_token`, or the one of this machine.
            revision: The branch; by default `args.hub_revision`, or the main one.
            private: Make the repository private if it is new; by default `args.hub_private_repo`.
            **card_fields: As for `create_model_card`.

        Returns:
            The commit, or with `blocking=False` its future; None in processes that do not push.

        Raises:
            ValueError: If the labels have no names, a file holds what looks like a secret, or the
                repository is to be private and is public.
            OSError: If the Hub refuses or cannot be reached.
        """
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        if self.hub_model_id is None:
            self.init_hf_repo(token=token, private=private)
        self.save_model(_internal_call=True)
        if not self.is_world_process_zero():
            return None
        self._check_repository(revision, token or self.args.hub_token, private)
        self.create_model_card(**card_fields)
        self._finish_current_push()
        folder = str(self.args.output_dir)
        job = self._commit(folder, commit_message, token=token, revision=revision)
        if not blocking:
            return job
        with explained(str(self.hub_model_id), "cannot be pushed to"):
            return job.result()

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if not self.is_world_process_zero() or self.args.hub_strategy == HubStrategy.END:
            return
        last: Any = self.push_in_progress
        if last is not None and not last.is_done() and not self.args.hub_always_push:
            return
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        message = f"Training in progress, step {self.state.global_step}"
        try:
            job = self._commit(checkpoint_folder, message)
        except ValueError as error:  # not fit to be public, which can be mended after the training
            logger.warning(f"a checkpoint was not pushed: {error}")
            return
        job.add_done_callback(_warn_of_failure)
        unfinished = [] if last is None else [job for job in last.jobs if not job.done()]
        jobs: Any = [*unfinished, job]  # transformers declares the type of one job
        self.push_in_progress = PushInProgress(jobs)  # type: ignore[assignment]

    def _commit(
        self,
        folder: str,
        message: str,
        token: str | None = None,
        revision: str | None = None,
    ) -> Future[CommitInfo]:
        """Send the public files of a folder; they are read now, for it may be gone soon."""
        check_label_names(self.model.config)
        files = read_public_files(Path(folder))
        name, token = str(self.hub_model_id), token or self.args.hub_token
        revision = revision or self.args.hub_revision

        def commit() -> CommitInfo:
            return send(self._api, name, files, message, revision, token)[0]

        return self._api.run_as_future(commit)

    def _save(
        self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None
    ) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            # A pickle that nothing reads back and that holds the Hub token and local paths.
            folder = Path(output_dir or str(self.args.output_dir))
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _warn_of_failure(job: Future[CommitInfo]) -> None:
    """Tell of a push that failed beside the training, which goes on."""
    if not job.cancelled() and (error := job.exception()) is not None:
        logger.warning(f"a checkpoint was not pushed: {without_secrets(str(error))}")


__all__ = ["PushingTrainer"]
