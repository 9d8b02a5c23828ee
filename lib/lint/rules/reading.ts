import { error, rulesById, type Theme, warning } from "../rule.ts";

export const readingRules = rulesById({
  "yaml-syntax": error(
    "The file is YAML",
    "A file that cannot be parsed configures nothing; the connection keeps its last valid version or cannot be used.",
  ),
  "wrong-encoding": error(
    "Files are UTF-8 text",
    "csimux reads UTF-8; in another encoding (PowerShell writes UTF-16), letters or the whole file are lost.",
  ),
  "yaml-alias": error(
    "Aliases name an anchor and stay small",
    "An alias without an anchor has no value. Aliases of aliases and merges of merges multiply: a file that would take long or exhaust the memory is refused before they are resolved.",
  ),
  "yaml-tag": warning("No unknown tags", "A !tag unknown to YAML has no effect; it was probably meant as text."),
  "yaml-too-large": error(
    "Files have a sensible size",
    "csimux refuses a file larger than 1 MiB, or with more than 30000 keys, values, signs and line breaks, without reading it, because that would delay every other connection.",
  ),
  "yaml-too-deep": error(
    "Lists and mappings are not nested hundreds of levels deep",
    "No configuration is; forgotten brackets are the usual reason.",
  ),
  "duplicate-key": error(
    "A key occurs once in a mapping",
    "Only one of the two values can have an effect, and programs disagree on which.",
  ),
  "empty-file": error(
    "A file in the connection folder is a connection",
    "An empty file, or one with only comments, is a connection that was never valid: classes that name it fail.",
  ),
  "unknown-key": error(
    "Every key is known",
    "A mistyped key has no effect, and the intended key keeps its default. csimux does not use a file with a key that resembles a known one; with any other unknown key, it shows the file as degraded.",
  ),
  "missing-key": error("Required keys exist", "The connection cannot be opened without them."),
  "wrong-type": error("Values have the right type", "A list in place of text has no meaning."),
  "invalid-value": error(
    "Values are in their range",
    "The storage system or the kernel would refuse the value later, when a volume is created.",
  ),
  "retyped-value": warning(
    "Text is quoted, numbers and booleans are not",
    "csimux uses the only possible meaning; other programs that read the file may not.",
  ),
  "renamed-key": warning(
    "Keys have their current name",
    "The other spelling works, but documentation and other tools only know the current one.",
  ),
  "ignored-key": warning("No keys without effect", "The key has no effect here."),
  "key-given-twice": error(
    "One spelling of a key at a time",
    "Two spellings of the same key, or a secret and its file, contradict each other.",
  ),
  "unset-variable": {
    ...error(
      "Variables are set",
      "${env:NAME} without NAME has no value. Only --online checks it, where the environment is the real one.",
    ),
    online: true,
  },
  "unreadable-file": {
    ...error("Files named by <key>File exist", "The value of a secret could not be read. Only --online checks it."),
    online: true,
  },
  "unexpanded-variable": warning(
    "References to the environment are written ${env:NAME}",
    "$NAME and ${NAME} are taken literally, because passwords may contain them.",
  ),
  "placeholder-value": warning(
    "No placeholders of published examples",
    "The file was copied from an example and not completed.",
  ),
  "unknown-driver": error("The driver exists", "csimux cannot open the connection."),
  "bad-connection-name": error(
    "File names are valid connection names",
    "The name is part of every volume handle: letters, digits, '.', '_', '-', at most 63, with a letter or digit at both ends.",
  ),
  "file-not-read": error(
    "Connection files end in .yaml or .yml",
    "The daemon ignores all other names, so the connection would not exist.",
  ),
  "not-proxy": error(
    "The main file has driver: proxy, or configures one driver",
    "A main file of a single driver is served as the only connection. One with proxy.configFolder and another driver is neither.",
  ),
  "secret-entry": error(
    "Entries of Secrets are files that csimux reads",
    "csimux reads only entries whose names end in .yaml or .yml, with base64 under `data` and plain text under `stringData`.",
  ),
  "nothing-to-check": error(
    "The files concern csimux",
    "A file that was named but contains nothing of csimux is probably the wrong one.",
  ),
  "too-many-problems": error("A file has at most 200 problems", "Further ones are counted, but not shown."),
  "several-main-files": error(
    "One main file per deployment",
    "Connections, groups and classes are checked against the main file of their deployment. Objects of several deployments are distinguished by folder, or by the label app.kubernetes.io/instance.",
  ),
  "connection-check": {
    ...error(
      "The storage system answers",
      "Only with --online: the system is unreachable, refuses the credentials, or lacks something that the driver needs.",
    ),
    online: true,
  },
  "unused-suppression": warning(
    "Suppression comments have a purpose",
    "A comment that suppresses nothing would hide the next real problem of that line.",
  ),
});

/** Rules about reading single files, and about their keys and values. lib/yaml, lib/schema and lib/config report most of them. */
export const reading: Theme = {
  rules: Object.values(readingRules),
};
