/** Why a move is not made, or cannot continue: one line for each reason; exit code 1. */
export class MoveRefusal extends Error {
  override readonly name = "MoveRefusal";
  readonly reasons: readonly string[];
  constructor(...reasons: readonly string[]) {
    super(reasons.join("\n"));
    this.reasons = reasons;
  }
}
