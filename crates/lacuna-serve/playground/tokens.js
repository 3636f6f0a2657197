/** The text of a token as the page shows it. */

const SPECIAL = /^<[|｜]?[A-Za-z][\w ▁-]*[|｜]?>$/;
const END = /end|eos|eot|im_end|^<\/s>$/i;
const ROLE = /^(system|user|assistant)$/;

/** True if this is a token of the model's own language, such as an end of text or a role marker. */
export function isSpecial(text) {
  return text === "</s>" || SPECIAL.test(text);
}

/** True if this token ends the text. */
export function isEnd(text) {
  return isSpecial(text) && END.test(text) && !/header/i.test(text);
}

/** True if a token names who speaks: a role's name right behind a special token. */
export function isRole(cells, position) {
  const [before, text] = [cells[position - 1]?.text, cells[position].text];
  return text !== null && ROLE.test(text.trim()) && Boolean(before) && isSpecial(before);
}

/**
 * A token cut where it breaks the line: "}\n\n  " is "}⏎", "⏎", "  ". Every piece but the last ends its line.
 * @param {string} text
 * @returns {{text: string, breaks: boolean}[]}
 */
export function pieces(text) {
  const lines = text.replaceAll("\r", "").replaceAll("\t", "    ").split("\n");
  const cut = lines.map((line, index) => {
    const breaks = index < lines.length - 1;
    return { text: breaks ? `${line}⏎` : line, breaks };
  });
  return cut.length > 1 && cut.at(-1).text === "" ? cut.slice(0, -1) : cut;
}

/** A token as one can speak of it in a sentence. */
export function named(text) {
  if (text === null || text === undefined) return "?";
  if (isEnd(text)) return "end of text";
  return text.replaceAll("\n", "⏎").replaceAll(" ", "␣") || "part of a character";
}

export function percent(probability) {
  if (probability > 0.9995 && probability < 1) return ">99.9%";
  return `${(100 * probability).toFixed(1)}%`;
}

export function number(value) {
  return value > 0 && value < 0.001 ? "<0.001" : value.toFixed(3);
}
