/** The text with every secret replaced by "***", the longest first so that no part of a longer one remains. */
export function masked(text: string, secrets: readonly string[] = []): string {
  const words = secrets.filter(word => word !== "").sort((a, b) => b.length - a.length);
  return words.reduce((rest, word) => rest.replaceAll(word, "***"), text);
}
