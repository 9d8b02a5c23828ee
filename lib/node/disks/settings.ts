/** How one file system is checked before it is mounted. */
export interface CheckSettings {
  readonly enabled: boolean;
  /** Arguments of the checking tool; if not empty, they replace csimux's own. */
  readonly options: readonly string[];
}

/** The settings for file systems in the `node:` block of the main file, by the file systems' names. */
export interface DiskSettings {
  readonly check: Readonly<Record<string, CheckSettings>>;
  /** Additional arguments of mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}
