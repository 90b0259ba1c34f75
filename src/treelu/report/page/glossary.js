// What the words on the page mean, folded out on demand.

const WORDS = {
  Row: "One line of the table: a person, a molecule, a day.",
  Feature: "A number that the tree reads. A text column becomes one feature per category: 1 where the row has it, else 0.",
  "Node, question": "A place where the rows part. Features are multiplied by weights and added up; rows whose sum reaches the bound take the lower branch, the others the upper one.",
  Weight: "How strongly a feature counts in a question, in the feature's own unit.",
  Effect: "Weight times the spread of the feature: how far the feature moves the answer between usual rows.",
  Leaf: "Where a row ends. All rows of a leaf get the same prediction.",
  "Hold-out rows": "Rows that were set aside before training. Scores on them tell what to expect of new rows.",
  "95 % interval": "Where the score would mostly lie if other rows had been drawn from the same source.",
  Baseline: "What an answer without any features scores: always the most frequent class, or always the mean.",
  Accuracy: "Share of the rows that are predicted right. It says little where one class is rare.",
  Recall: "Of the rows that are positive, the share that is found.",
  Precision: "Of the rows that are called positive, the share that is.",
  Threshold: "The probability from which a row is called positive.",
  "ROC AUC": "The probability that a positive row is ranked above a negative one: 0.5 is guessing, 1 is perfect.",
  "Average precision": "Precision averaged over all thresholds. Guessing scores the share of positives.",
  "Log-loss": "How surprising the answers are, given the predicted probabilities; 0 is perfect.",
  "Log-odds": "Another scale for a probability p, on which terms can be added up: log(p / (1 − p)). 0 is 50 %, 2 is 88 %, −2 is 12 %.",
  "R²": "Share of the variance that is explained: 0 is what the mean alone scores, 1 is perfect.",
  RMSE: "Root of the mean squared error, in the unit of the target.",
  Calibration: "Whether events happen as often as their predicted probabilities say.",
  "Partial dependence": "The mean prediction if a feature had a given value in all rows and everything else stayed as it is.",
  Gain: "How many of the cases are found by going through the rows in the order of their predicted probability.",
  "Logistic regression, ridge regression": "One formula for all rows, without any question: the simplest model to compare with.",
  CART: "scikit-learn's decision tree, which asks about one feature at a time.",
};

function showGlossary(summary) {
  const other = summary.classes ? ["R²", "RMSE"] : ["Accuracy", "Recall", "Precision", "Threshold", "ROC AUC", "Average precision", "Log-loss", "Log-odds"];
  const words = Object.entries(WORDS).filter(([word]) => !other.includes(word));
  byId("glossary").append(h("summary", {}, "What do these words mean?"), h("dl", {}, words.map(([word, text]) => [h("dt", {}, word), h("dd", {}, text)])));
}

/** Warnings at the page's top. */
function showWarnings(summary) {
  if (!summary.warnings.length) return;
  show("warnings");
  byId("warned").hidden = false;
  byId("warned").append(h("a", { href: "#warnings" }, `⚠ ${plural(summary.warnings.length, "warning")}`));
  byId("warning-list").append(...summary.warnings.map((text) => h("li", {}, text[0].toUpperCase() + text.slice(1))));
}
