"""`PushingTrainer`: the stock `Trainer`, whose pushes to the Hub hold only what may be public.

The stock one uploads the folder of the run as it is: `training_args.bin`, a pickle that can hold
the Hub token, predictions, logs and whatever else lies there, but not all that a checkpoint needs.
"""

import logging
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi, ModelCard
from torch import nn
from transformers import Trainer
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import HubStrategy
from transformers.utils.hub import PushInProgress

from .hub import write_model_card
from .privacy import without_secrets
from .publishing import CARD_NAME, check_label_names, read_public_files

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
            optimizer, or the labels have no names.
    """

    def __init__(self, model: nn.Module, args: Any, **kwargs: Any) -> None:
        if args.push_to_hub:
            if args.hub_strategy not in (HubStrategy.END, HubStrategy.EVERY_SAVE):
                raise ValueError(
                    f"hub_strategy {args.hub_strategy.value!r} would publish optimizer and random "
                    "states, which are pickles; choose 'end' or 'every_save'"
                )
            network: Any = model
            check_label_names(network.config)
        super().__init__(model, args, **kwargs)

    def create_model_card(  # type: ignore[override]
        self, language: str | None = None, license: str | None = None
    ) -> None:
        """Write the card of the run's folder if it has none, and note what is given.

        Args:
            language: What the model reads, such as `en`.
            license: What its weights are under, such as `apache-2.0`.
        """
        if not self.is_world_process_zero():
            return
        path = Path(str(self.args.output_dir), CARD_NAME)
        if not path.is_file():
            write_model_card(path.parent, repo_id=self.hub_model_id)
        card = ModelCard.load(path)
        card.data.language = language or card.data.language
        card.data.license = license or card.data.license
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
        """
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        if self.hub_model_id is None:
            self.init_hf_repo(token=token, private=private)
        self.save_model(_internal_call=True)
        if not self.is_world_process_zero():
            return None
        self.create_model_card(**card_fields)
        self._finish_current_push()
        folder = str(self.args.output_dir)
        job = self._commit(folder, commit_message, token=token, revision=revision)
        return job.result() if blocking else job

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if not self.is_world_process_zero() or self.args.hub_strategy == HubStrategy.END:
            return
        last: Any = self.push_in_progress
        if last is not None and not last.is_done() and not self.args.hub_always_push:
            return
        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        message = f"Training in progress, step {self.state.global_step}"
        job = self._commit(checkpoint_folder, message)
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
        files = read_public_files(Path(folder))
        return HfApi().create_commit(
            str(self.hub_model_id),
            [CommitOperationAdd(*file) for file in files.items()],
            commit_message=message,
            token=token or self.args.hub_token,
            revision=revision or self.args.hub_revision,
            run_as_future=True,
        )

    def _save(
        self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None
    ) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            # A pickle that nothing reads back and that holds the Hub token and local paths.
            folder = Path(output_dir or str(self.args.output_dir))
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)


def _warn_of_failure(job: Future[CommitInfo]) -> None:
    """Tell of a push that failed beside the training, which goes on."""
    if not job.cancelled() and (error := job.exception()) is not None:
        logger.warning(f"a checkpoint was not pushed: {without_secrets(str(error))}")


__all__ = ["PushingTrainer"]
