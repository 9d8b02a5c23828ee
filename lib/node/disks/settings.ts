/** How one file system is checked before it is mounted. */
export interface CheckSettings {
  readonly enabled: boolean;
  /** Arguments of the checking tool, in place of csimux's own when there are any. */
  readonly options: readonly string[];
}

/** What the `node:` block of the main file says about file systems, by their names. */
export interface DiskSettings {
  readonly check: Readonly<Record<string, CheckSettings>>;
  /** More arguments of mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}
