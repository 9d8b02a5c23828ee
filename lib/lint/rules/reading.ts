import type { Rule, Theme } from "../rule.ts";

export const yamlSyntax: Rule = {
  id: "yaml-syntax",
  severity: "error",
  title: "The file is YAML",
  why: "A file that cannot be parsed configures nothing; the connection keeps its last valid version or cannot be used.",
};

export const wrongEncoding: Rule = {
  id: "wrong-encoding",
  severity: "error",
  title: "Files are UTF-8 text",
  why: "csimux reads UTF-8; in another encoding (PowerShell writes UTF-16), letters or the whole file are lost.",
};

export const ignoredKey: Rule = {
  id: "ignored-key",
  severity: "warning",
  title: "No keys without effect",
  why: "The key has no effect here.",
};

export const fileNotRead: Rule = {
  id: "file-not-read",
  severity: "error",
  title: "Connection files end in .yaml or .yml",
  why: "The daemon ignores all other names, so the connection would not exist.",
};

export const secretEntry: Rule = {
  id: "secret-entry",
  severity: "error",
  title: "Entries of Secrets are files that csimux reads",
  why: "csimux reads only entries whose names end in .yaml or .yml, with base64 under `data` and plain text under `stringData`.",
};

export const nothingToCheck: Rule = {
  id: "nothing-to-check",
  severity: "error",
  title: "The files concern csimux",
  why: "A file that was named but contains nothing of csimux is probably the wrong one.",
};

export const tooManyProblems: Rule = {
  id: "too-many-problems",
  severity: "error",
  title: "A file has at most 200 problems",
  why: "Further ones are counted, but not shown.",
};

export const severalMainFiles: Rule = {
  id: "several-main-files",
  severity: "error",
  title: "One main file per deployment",
  why: "Connections, groups and classes are checked against the main file of their deployment. Objects of several deployments are told apart by folder, or by the label app.kubernetes.io/instance.",
};

/** Rules about reading single files, and about their keys and values. lib/yaml, lib/schema and lib/config report most of them. */
export const reading: Theme = {
  rules: [
    yamlSyntax,
    wrongEncoding,
    {
      id: "yaml-alias",
      severity: "error",
      title: "Aliases name an anchor and stay small",
      why: "An alias without an anchor has no value. Aliases of aliases and merges of merges multiply: a file that would take long or exhaust the memory is refused before they are resolved.",
    },
    {
      id: "yaml-tag",
      severity: "warning",
      title: "No unknown tags",
      why: "A !tag unknown to YAML has no effect; it was probably meant as text.",
    },
    {
      id: "yaml-too-large",
      severity: "error",
      title: "Files have a sensible size",
      why: "csimux refuses a file larger than 1 MiB, or with more than 30000 keys, values, signs and line breaks, without reading it, because that would delay every other connection.",
    },
    {
      id: "yaml-too-deep",
      severity: "error",
      title: "Lists and mappings are not nested hundreds of levels deep",
      why: "No configuration is; forgotten brackets are the usual reason.",
    },
    {
      id: "duplicate-key",
      severity: "error",
      title: "A key occurs once in a mapping",
      why: "Only one of the two values can have an effect, and programs disagree on which.",
    },
    {
      id: "empty-file",
      severity: "error",
      title: "A file in the connection folder is a connection",
      why: "An empty file, or one with only comments, is a connection that was never valid: classes that name it fail.",
    },
    {
      id: "unknown-key",
      severity: "error",
      title: "Every key is known",
      why: "A mistyped key has no effect, and the intended key keeps its default. csimux starts nevertheless and logs it.",
    },
    {
      id: "missing-key",
      severity: "error",
      title: "Required keys exist",
      why: "The connection cannot be opened without them.",
    },
    {
      id: "wrong-type",
      severity: "error",
      title: "Values have the right type",
      why: "A list in place of text has no meaning.",
    },
    {
      id: "invalid-value",
      severity: "error",
      title: "Values are in their range",
      why: "The storage system or the kernel would refuse the value later, when a volume is created.",
    },
    {
      id: "retyped-value",
      severity: "warning",
      title: "Text is quoted, numbers and booleans are not",
      why: "csimux uses the only possible meaning; other programs that read the file may not.",
    },
    {
      id: "renamed-key",
      severity: "warning",
      title: "Keys have their current name",
      why: "The other spelling works, but documentation and other tools only know the current one.",
    },
    ignoredKey,
    {
      id: "key-given-twice",
      severity: "error",
      title: "One spelling of a key at a time",
      why: "Two spellings of the same key, or a secret and its file, contradict each other.",
    },
    {
      id: "unset-variable",
      severity: "error",
      title: "Variables are set",
      why: "${env:NAME} without NAME has no value. Only --online checks it, where the environment is the real one.",
      online: true,
    },
    {
      id: "unreadable-file",
      severity: "error",
      title: "Files named by <key>File exist",
      why: "The value of a secret could not be read. Only --online checks it.",
      online: true,
    },
    {
      id: "unexpanded-variable",
      severity: "warning",
      title: "References to the environment are written ${env:NAME}",
      why: "$NAME and ${NAME} are taken literally, because passwords may contain them.",
    },
    {
      id: "unusual-key",
      severity: "warning",
      title: "Keys passed to another program are usual ones",
      why: "csimux passes these keys on without knowing all of them; a key similar to a usual one is probably misspelt.",
    },
    {
      id: "placeholder-value",
      severity: "warning",
      title: "No placeholders of published examples",
      why: "The file was copied from an example and not completed.",
    },
    { id: "unknown-driver", severity: "error", title: "The driver exists", why: "csimux cannot open the connection." },
    {
      id: "bad-connection-name",
      severity: "error",
      title: "File names are valid connection names",
      why: "The name is part of every volume handle: letters, digits, '.', '_', '-', at most 63, with a letter or digit at both ends.",
    },
    fileNotRead,
    {
      id: "not-proxy",
      severity: "error",
      title: "The main file has driver: proxy, or configures one driver",
      why: "A main file of a single driver is served as the only connection. One with proxy.configFolder and another driver is neither.",
    },
    secretEntry,
    nothingToCheck,
    tooManyProblems,
    severalMainFiles,
    {
      id: "connection-check",
      severity: "error",
      title: "The storage system answers",
      why: "Only with --online: the system is unreachable, refuses the credentials, or lacks something that the driver needs.",
      online: true,
    },
    {
      id: "unused-suppression",
      severity: "warning",
      title: "Suppression comments have a purpose",
      why: "A comment that suppresses nothing would hide the next real problem of that line.",
    },
  ],
};
