/** The flags of the subcommands, under commander's names. */
export interface VolumesFlags {
  readonly config?: string;
  readonly endpoint?: string;
  readonly name?: string;
  readonly pvs?: string;
  readonly output?: string;
  readonly json?: true;
  readonly timeout: string;
  readonly printDelete?: true;
  readonly all?: true;
  readonly mark?: true;
  readonly claim?: string;
}
