/** The text with every secret word replaced by "***", the longest words first so that no rest of one stays behind. */
export function masked(text: string, secrets: readonly string[] = []): string {
  const words = secrets.filter(word => word !== "").sort((a, b) => b.length - a.length);
  return words.reduce((rest, word) => rest.replaceAll(word, "***"), text);
}
