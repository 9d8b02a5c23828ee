import type { Command, Option } from "commander";
import type { Host } from "./host.ts";
import { exit } from "./terminal/terminal.ts";

const shells: Readonly<Record<string, (program: Command) => string>> = { bash, zsh, fish };

/** `csimux completion SHELL`: prints a completion script, generated from the commands. */
export function addCompletion(program: Command, host: Host): void {
  program
    .command("completion")
    .argument("<shell>", Object.keys(shells).join(", "))
    .description("print a completion script for a shell, for example: source <(csimux completion bash)")
    .action((shell: string) => {
      const script = Object.hasOwn(shells, shell) ? shells[shell] : undefined;
      if (script) host.out(script(program));
      else host.err(`csimux: completion supports ${Object.keys(shells).join(", ")}, not "${shell}"\n`);
      exit(script ? 0 : 2);
    });
}

/** A command and its path of words. */
interface Entry {
  readonly words: readonly string[];
  readonly command: Command;
}

const entries = (command: Command, words: readonly string[] = []): readonly Entry[] => [
  { words, command },
  ...command.commands.flatMap(each => entries(each, [...words, each.name()])),
];

const flagsOf = ({ command }: Entry): readonly Option[] => [...command.options];
const namesOf = (option: Option): readonly string[] =>
  [option.short, option.long].filter(each => each !== undefined && each !== null);
const offered = (entry: Entry): readonly string[] => [
  ...entry.command.commands.map(each => each.name()),
  ...flagsOf(entry).flatMap(namesOf),
  "--help",
];

/** Words are csimux's own names and flags: letters, digits and dashes. */
const cases = (program: Command, line: (entry: Entry) => string): string =>
  entries(program)
    .map(entry => `    "${entry.words.join(" ")}") ${line(entry)} ;;`)
    .join("\n");

/** The names of all commands, to tell them from values of flags. */
const commandWords = (program: Command): string =>
  [...new Set(entries(program).flatMap(({ words }) => words))].join("|");

function bash(program: Command): string {
  return `# bash completion of csimux: source <(csimux completion bash)
_csimux() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" word offers
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in ${commandWords(program)}) path="\${path:+$path }$word" ;; esac
  done
  case "$path" in
${cases(program, entry => `offers="${offered(entry).join(" ")}"`)}
    *) offers="--help" ;;
  esac
  COMPREPLY=($(compgen -W "$offers" -- "$current"))
}
complete -o default -F _csimux csimux
`;
}

function zsh(program: Command): string {
  return `#compdef csimux
# zsh completion of csimux: source <(csimux completion zsh), or a file _csimux in a folder of $fpath
_csimux() {
  local path_="" word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in (${commandWords(program)}) path_="\${path_:+$path_ }$word" ;; esac
  done
  local -a offers
  case "$path_" in
${cases(program, entry => `offers=(${offered(entry).join(" ")})`).replace(/^ {4}"/gm, '    ("')}
    (*) offers=(--help) ;;
  esac
  compadd -a offers
  _files
}
compdef _csimux csimux
`;
}

/** A text in single quotes (fish documentation, "Quotes"). */
const quoted = (text: string): string => `'${text.replace(/[\\']/g, "\\$&")}'`;

function fish(program: Command): string {
  const lines = entries(program).flatMap(entry => {
    const { words, command } = entry;
    const seen = words.map(word => `__fish_seen_subcommand_from ${word}`).join("; and ");
    const below = command.commands.map(each => each.name());
    const none = below.length === 0 ? [] : [`not __fish_seen_subcommand_from ${below.join(" ")}`];
    const when = [...(seen === "" ? [] : [seen]), ...none].join("; and ");
    const condition = when === "" ? "" : ` -n ${quoted(when)}`;
    return [
      ...command.commands.map(
        each => `complete -c csimux${condition} -f -a ${each.name()} -d ${quoted(each.description())}`,
      ),
      ...flagsOf(entry).map(option => {
        const short = option.short ? ` -s ${option.short.replace(/^-/, "")}` : "";
        const long = option.long ? ` -l ${option.long.replace(/^--/, "")}` : "";
        const value = option.required ? " -r" : "";
        return `complete -c csimux${condition}${short}${long}${value} -d ${quoted(option.description)}`;
      }),
    ];
  });
  return `# fish completion of csimux: csimux completion fish | source\n${lines.join("\n")}\n`;
}
