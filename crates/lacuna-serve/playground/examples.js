/** Things to try. Each shows something; all were chosen for what the embedded model really does with them. */

const BAGELS =
  "Simon has 72 bagels. He buys 4 boxes of bagels with 10 bagels in each box. " +
  "He shares the bagels equally among 2 students. How many bagels does each one get?";

/**
 * @typedef {object} Example
 * @property {string} name
 * @property {string} about what to look at
 * @property {"prompt" | "gaps"} mode
 * @property {string} [prompt]
 * @property {string} [question]
 * @property {string} [text]
 * @property {string} [length]
 * @property {[string, Record<string, string>?][]} lanes
 * @property {string} [answer] the number that is right
 */

/** @type {Example[]} */
export const EXAMPLES = [
  {
    name: "Word problem",
    about: "What a model is surest of is often where the text ends. Decided first, does it leave room to calculate?",
    mode: "prompt",
    prompt: BAGELS,
    length: "64",
    lanes: [["confidence+eb"], ["dos+eb"]],
    answer: "56",
  },
  {
    name: "Why blocks?",
    about: "The same strategy in blocks from left to right, which keep it away from the end of the text.",
    mode: "prompt",
    prompt: BAGELS,
    length: "64",
    lanes: [["confidence+eb"], ["confidence+eb", { block_length: "16" }]],
    answer: "56",
  },
  {
    name: "Python function",
    about: "The frame of the code first, or from the prompt onwards?",
    mode: "prompt",
    prompt: "Write a Python function factorial(n) that returns the factorial of n.",
    length: "96",
    lanes: [["confidence+eb"], ["dos+eb"]],
  },
  {
    name: "Fill the gaps",
    about: "The end is given. What leads there is filled in from both sides.",
    mode: "gaps",
    question: BAGELS,
    text: "<gap:36>\n#### 56",
    lanes: [["dos+eb"], ["confidence+eb"]],
  },
  {
    name: "Second thoughts",
    about: "Two methods that take back what they doubt. Look for slots with a red frame: they have opened again.",
    mode: "prompt",
    prompt: "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?",
    length: "64",
    lanes: [["wino", { threshold: "0.3" }], ["saber"]],
    answer: "31",
  },
];

/** The example that a prompt was taken from, if it was not changed. */
export function exampleOf(prompt) {
  return EXAMPLES.find((example) => example.mode === "prompt" && example.prompt === prompt) ?? null;
}
