/** Whether a text is a valid topology value or name of a key: 1 to 63 characters, letters or digits at both ends (CSI "Topology"). */
export const isLabelValue = (text: string): boolean => /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(text);

const isDnsName = (text: string): boolean =>
  text.length <= 253 && text.split(".").every(part => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(part));

/** Whether a text can be the key of a label: a name, or a DNS name, a slash and a name (Kubernetes "Labels and Selectors"). */
export function isLabelKey(text: string): boolean {
  const [prefix = "", ...rest] = text.split("/");
  return rest.length === 0 ? isLabelValue(text) : isDnsName(prefix) && isLabelValue(rest.join("/"));
}

/** Why a text is not a valid value, in words, with the text shortened. */
export const whyNoValue = (text: string): string =>
  text.length > 63
    ? `${quoted(text)} has ${text.length} characters; a topology value has at most 63`
    : `${quoted(text)} is not a valid topology value: letters, digits, ".", "_", "-", with a letter or digit at both ends`;

const shownLength = 80;

/** A text in quotes on one line, at most about 80 characters of it. */
export const quoted = (text: string): string =>
  JSON.stringify(text.length > shownLength ? `${text.slice(0, shownLength)}…` : text);
