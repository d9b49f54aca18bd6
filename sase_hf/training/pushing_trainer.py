"""`PushingTrainer`: the stock `Trainer`, whose push at the end holds only what may be public."""

from typing import Any

from transformers import Trainer

from ..hub.push import push


class PushingTrainer(Trainer):
    """`transformers.Trainer` that pushes through `hub.push`, and only when asked to."""

    model: Any  # the base class promises less than a PreTrainedModel

    def push_to_hub(  # type: ignore[override]
        self, commit_message: str = "End of training", **_: Any
    ) -> None:
        """Push the model, its tokenizer, its code and its card as one commit.

        Args:
            commit_message: The message of the commit.
        """
        self.save_model(_internal_call=True)
        if self.is_world_process_zero():
            args: Any = self.args
            push(
                args.output_dir,
                str(self.hub_model_id),
                private=bool(args.hub_private_repo),
                revision=args.hub_revision,
                commit_message=commit_message,
                needs_license=False,
                token=args.hub_token,
            )

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        pass


__all__ = ["PushingTrainer"]
