import type { ErrorCode } from "yaml";

/**
 * What each syntax error means, in our words: the parser's own messages may quote the text at fault,
 * which may be a secret. First what is wrong, then what to do.
 */
export const syntaxErrors: Readonly<Record<ErrorCode, readonly [string, string]>> = {
  ALIAS_PROPS: ["an alias cannot have an anchor or a tag", "remove the anchor or tag before the *alias"],
  BAD_ALIAS: [
    "this alias names no anchor that stands before it",
    'define &name before using *name, or quote a text that begins with "*"',
  ],
  BAD_COLLECTION_TYPE: ["the tag does not fit the value", "remove the tag"],
  BAD_DIRECTIVE: ["unknown directive", 'remove the line that begins with "%"'],
  BAD_DQ_ESCAPE: ["unknown escape in a double-quoted text", "use single quotes, or double the backslash"],
  BAD_INDENT: [
    "the indentation does not fit the lines around it",
    "indent the keys of one mapping by the same number of spaces",
  ],
  BAD_PROP_ORDER: ["anchor or tag stands at the wrong place", "put it directly before the value"],
  BAD_SCALAR_START: ["a plain text cannot begin with this character", "put the value in quotes"],
  BLOCK_AS_IMPLICIT_KEY: [
    'this value is followed by another "key: value"',
    "correct the indentation around this line, or put the value in quotes",
  ],
  BLOCK_IN_FLOW: ["a block cannot stand inside [ ] or { }", "close the bracket first"],
  DUPLICATE_KEY: ["this key stands twice in one mapping", "remove one of the two"],
  IMPOSSIBLE: ["this cannot be read as YAML", "check the quotes and the indentation around this place"],
  KEY_OVER_1024_CHARS: ["this key is longer than 1024 characters", "check the quotes before this place"],
  MISSING_CHAR: [
    "a closing quote, bracket, comma or a colon is missing",
    "check the quotes and brackets before this place",
  ],
  MULTILINE_IMPLICIT_KEY: [
    'this line is neither "key: value" nor a continuation',
    'add ": " after the key, or correct the indentation',
  ],
  MULTIPLE_ANCHORS: ["a value can have only one anchor", "remove one of the two"],
  MULTIPLE_DOCS: ['the file holds several documents (a line "---" separates them)', "put each into a file of its own"],
  MULTIPLE_TAGS: ["a value can have only one tag", "remove one of the two"],
  NON_STRING_KEY: ["a key must be text", "put the key in quotes"],
  RESOURCE_EXHAUSTION: ["the file is nested too deeply", "check the brackets and the indentation"],
  TAB_AS_INDENT: ["a tab is used for indentation", "use spaces"],
  TAG_RESOLVE_FAILED: ["unknown tag", 'remove the tag, or quote a text that begins with "!"'],
  UNEXPECTED_TOKEN: ["this cannot stand here", "check the quotes, brackets and indentation around this place"],
};

/** A missing quote whose opening one is known. */
export const unclosedQuote: readonly [string, string] = [
  "the text that begins here has no closing quote",
  "close the quote at the end of the value",
];

/** A line of a mapping without ": ". */
export const noColon: readonly [string, string] = [
  'this line is no "key: value"',
  "write a colon and a space behind the key, or correct the indentation",
];

/** An anchor before nothing: an unquoted text that begins with "&". */
export const emptyAnchor: readonly [string, string] = [
  '"&" begins an anchor, so this value is empty',
  'put the value in quotes if it begins with "&"',
];

/** Aliases of aliases, which would fill the memory. */
export const multipliedAliases: readonly [string, string] = [
  "aliases multiply this file beyond all measure",
  "write the values out",
];

/** "<<" with something that has no keys. */
export const badMerge: readonly [string, string] = [
  '"<<" takes in a mapping, and its value is none',
  'write "<<: *name" with the anchor of a mapping, or put the key in quotes',
];
