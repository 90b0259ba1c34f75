// Questions: what was proved of the tree, and for listed rows the nearest change, the margin and each feature's share.

function showQuestions(summary) {
  const { questions } = summary;
  if (!questions || (!questions.rows.length && !questions.properties.length)) return;
  show("questions");
  const open = questions.not_computed ? ` ${plural(questions.not_computed, "answer")} ${questions.not_computed === 1 ? "is" : "are"} not computed: all together may take ${brief(questions.seconds)} s of processor time.` : "";
  const whole = questions.without_missing ? " without missing values" : "";
  const among = questions.within_training
    ? "They stay within what the training rows held: no number below the lowest or above the highest there, whole numbers where all were whole, and only categories that occurred. What is proved holds for every such row"
    : "What is proved holds for every row whose values lie within the ranges seen here";
  byId("questions-about").textContent = `These answers are exact: they are worked out from the tree, not estimated. ${among}${whole}; what is refuted fails for at least one such row.${open}`;
  byId("questions-properties").append(...questions.properties.map(({ words, proved }) => h("li", { class: proved ? "proved" : "refuted" }, words)));
  if (!questions.rows.length) return;
  byId("questions-rows").hidden = false;
  const select = byId("questions-select");
  select.append(...questions.rows.map((row, i) => h("option", { value: i }, optionText(summary, summary.samples[i]))));
  const all = summary.samples.length;
  byId("questions-count").textContent = questions.rows.length < all ? `of the first ${questions.rows.length} of ${all} listed rows` : "";
  const update = () => showAnswers(summary, Number(select.value));
  select.addEventListener("change", update);
  update();
}

function showAnswers(summary, i) {
  const { step } = summary.questions; // in regression the difference of predictions that counts as another answer
  const row = summary.questions.rows[i];
  // What there was no time for is absent.
  byId("questions-change").textContent = row.change === undefined ? "The nearest change of this row is not computed: the time for the answers of this page was over." : `This row ${row.change}.`;
  const same = step ? `the prediction changes by less than ${brief(step)}` : "the answer stays the same";
  const unknown = row.change === undefined ? "" : "How far its values may be off without another answer is not computed.";
  byId("questions-margin").textContent = row.margin === undefined ? unknown : row.margin === null ? "" : `Small errors in its values do not matter: ${same} as long as they are off by less than ${brief(row.margin)} standard deviations in all.`;
  if (row.shares === undefined) {
    byId("questions-shares").replaceChildren(h("p", { class: "muted" }, "What each column adds to the prediction is not computed."));
    return;
  }
  const prediction = summary.models[0].sample_predictions[i];
  const label = !summary.classes ? null : summary.classes[summary.classes.length === 2 ? summary.positive : decided(summary, prediction)];
  const usual = summary.classes ? `The tree gives “${label}” a probability of ${percent(row.base)} on average.` : `The tree predicts ${valueText(summary, row.base)} on average.`;
  const remark = `${usual} The bars show by how much each column of this row raises or lowers that${row.exact ? "" : " (estimated)"}.`;
  const said = (share) => (summary.classes ? `${share > 0 ? "+" : ""}${signed((100 * share).toFixed(1))} points` : withSign(share));
  const items = row.shares.map(({ name, share }) => ({ name: tidy(name), value: share, text: said(share), colour: share < 0 ? "var(--class-0)" : "var(--accent)" }));
  byId("questions-shares").replaceChildren(h("p", { class: "muted" }, remark), items.length ? barList(items) : h("p", {}, "No feature changes it."));
}
