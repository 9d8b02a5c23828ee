/** Words that comments, messages and pages do not use, and what to write instead. A space matches any white space. */
export interface Phrase {
  /** A regular expression. */
  readonly avoid: string;
  readonly write: string;
}

/**
 * The list that `make check` enforces. The numbers in baseline.json say how often an area still uses a phrase; they may only shrink. A phrase
 * that is wrong here belongs out of the list; one that is right in a single place is best written in other words.
 */
export const phrases: readonly Phrase[] = [
  { avoid: "anew", write: '"again", "new", or a verb with "re-"' },
  { avoid: "(?:go|goes|going|went) on(?! the)", write: '"continue"' },
  { avoid: "(?:no|some)body", write: 'who or what does it, or the passive: "is not used", "was created by hand"' },
  { avoid: "whoever", write: '"anyone who", or the role: "the caller", "the administrator"' },
  { avoid: "(?<![Tt]here )(?:is|are|was|were) no (?!longer|more|less|later)\\w+", write: '"is not a …"' },
  { avoid: "Those of", write: "the noun that it replaces" },
  { avoid: "(?:is|are|was|were|be|been) told", write: '"is reported", "is logged", "gets", "is passed"' },
  { avoid: "said once", write: '"logged once"' },
  { avoid: "look(?:s|ed|ing)? at", write: '"check", "inspect" or "read"' },
  { avoid: "(?:a|one|each|every|next|first|second|last) look", write: '"a check"' },
  { avoid: "stands? (?:in|at|below|above|under|beside|there|alone|by)", write: '"is", "exists"' },
  { avoid: "come to stand", write: '"be created"' },
  { avoid: '(?<![."`{])beside(?![."`}])', write: '"next to", "with", "in addition to"' },
  { avoid: "bears", write: '"has", "carries"' },
  { avoid: "all the same", write: '"anyway", "still"' },
  { avoid: "the ways? to (?:it|a|an|the|its)", write: '"the path", "the share or target of"' },
  { avoid: "lets? go", write: '"releases"' },
  { avoid: "takes? (?:its|their) time", write: '"is slow"' },
  { avoid: "mend(?:s|ed|ing)?", write: '"repair", "correct", "restore"' },
  { avoid: "for ever", write: '"forever", "permanently"' },
  { avoid: "else than", write: '"other than"' },
  { avoid: "but for", write: '"except"' },
  { avoid: "once more", write: '"again"' },
  { avoid: "at this moment", write: '"now"' },
  { avoid: "knows? of", write: '"knows", "has a record of"' },
  { avoid: "the words of", write: '"the messages of", "as … writes it"' },
  { avoid: "repeat the call", write: '"retry", or what a person must do' },
  { avoid: "shall", write: '"must", "should" or the present' },
  { avoid: "is in order", write: '"is good", "works"' },
  { avoid: "(?:storage|system|member|server|host)s? (?:is|are) away", write: '"is down", "is unavailable"' },
];
