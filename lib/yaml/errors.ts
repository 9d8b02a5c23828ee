import type { ErrorCode } from "yaml";

/**
 * Messages for syntax errors in our own words, because the parser's may quote the text at fault, which may be a secret.
 * First what is wrong, then what to do.
 */
export const syntaxErrors: Readonly<Record<ErrorCode, readonly [string, string]>> = {
  ALIAS_PROPS: ["an alias cannot have an anchor or a tag", "remove the anchor or tag before the *alias"],
  BAD_ALIAS: [
    "this alias has no anchor before it",
    'define &name before using *name, or quote a text that starts with "*"',
  ],
  BAD_COLLECTION_TYPE: ["the tag does not fit the value", "remove the tag"],
  BAD_DIRECTIVE: ["unknown directive", 'remove the line that starts with "%"'],
  BAD_DQ_ESCAPE: ["unknown escape in a double-quoted text", "use single quotes, or double the backslash"],
  BAD_INDENT: [
    "the indentation does not match the surrounding lines",
    "indent the keys of one mapping by the same number of spaces",
  ],
  BAD_PROP_ORDER: ["misplaced anchor or tag", "put it directly before the value"],
  BAD_SCALAR_START: ["an unquoted text cannot start with this character", "put the value in quotes"],
  BLOCK_AS_IMPLICIT_KEY: [
    'this value is followed by another "key: value"',
    "correct the indentation around this line, or put the value in quotes",
  ],
  BLOCK_IN_FLOW: ["a block is not allowed inside [ ] or { }", "close the bracket first"],
  DUPLICATE_KEY: ["this key occurs twice in one mapping", "remove one of them"],
  IMPOSSIBLE: ["this is not valid YAML", "check the quotes and the indentation near this position"],
  KEY_OVER_1024_CHARS: ["this key is longer than 1024 characters", "check the quotes before this position"],
  MISSING_CHAR: [
    "a closing quote, bracket, comma or a colon is missing",
    "check the quotes and brackets before this position",
  ],
  MULTILINE_IMPLICIT_KEY: [
    'this line is neither "key: value" nor a continuation',
    'add ": " after the key, or correct the indentation',
  ],
  MULTIPLE_ANCHORS: ["a value can have only one anchor", "remove one of them"],
  MULTIPLE_DOCS: ['the file contains several documents (separated by a line "---")', "put each into its own file"],
  MULTIPLE_TAGS: ["a value can have only one tag", "remove one of them"],
  NON_STRING_KEY: ["a key must be text", "put the key in quotes"],
  RESOURCE_EXHAUSTION: ["the file is nested too deeply", "check the brackets and the indentation"],
  TAB_AS_INDENT: ["a tab is used for indentation", "use spaces"],
  TAG_RESOLVE_FAILED: ["unknown tag", 'remove the tag, or quote a text that starts with "!"'],
  UNEXPECTED_TOKEN: ["unexpected text", "check the quotes, brackets and indentation near this position"],
};

/** Mistakes that the parser reports in another place or not at all, or that several of its codes stand for. */
export const knownFaults = {
  /** A missing closing quote with a known opening one. */
  unclosedQuote: ["the quoted text that starts here has no closing quote", "close the quote at the end of the value"],
  unclosedBracket: ["the bracket that opens here is not closed", "close it, or put the value in quotes"],
  /** A character that looks like a space. */
  noSpace: [
    "this is a no-break space, or one of another width; YAML accepts only plain spaces",
    "type the space again",
  ],
  noColon: ['this line is not "key: value"', "write a colon and a space after the key, or correct the indentation"],
  /** An unquoted text that starts with "&". */
  emptyAnchor: ['"&" starts an anchor, so this value is empty', 'put the value in quotes if it starts with "&"'],
  multipliedAliases: ["aliases multiply this file beyond its limits", "write the values out"],
  badMerge: [
    '"<<" needs a mapping as its value',
    'write "<<: *name" with the anchor of a mapping, or put the key in quotes',
  ],
} as const satisfies Readonly<Record<string, readonly [string, string]>>;
