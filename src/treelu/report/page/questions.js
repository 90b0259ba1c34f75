// Questions: what was proved of the tree, and for listed rows the nearest change, the margin and each feature's share.

function showQuestions(summary) {
  const { questions } = summary;
  if (!questions || (!questions.rows.length && !questions.properties.length)) return;
  show("questions");
  const open = questions.not_computed ? ` ${questions.not_computed} of them are not computed: all together may take ${brief(questions.seconds)} s.` : "";
  byId("questions-about").textContent = `Exact answers of the tree. A property is proved for all rows within the ranges of these rows, or refuted.${open}`;
  byId("questions-properties").append(...questions.properties.map(({ words, proved }) => h("li", { class: proved ? "proved" : "refuted" }, words)));
  if (!questions.rows.length) return;
  byId("questions-rows").hidden = false;
  const select = byId("questions-select");
  select.append(...questions.rows.map((row, i) => h("option", { value: i }, optionText(summary, summary.samples[i]))));
  const all = summary.samples.length;
  byId("questions-count").textContent = questions.rows.length < all ? `of the first ${questions.rows.length} of ${all} listed rows` : "";
  const update = () => showAnswers(questions.rows[Number(select.value)], questions.step);
  select.addEventListener("change", update);
  update();
}

/** `step`: in regression the difference of predictions that counts as another answer. */
function showAnswers(row, step) {
  if (row === null) {
    byId("questions-change").textContent = "Not computed: the time for the answers of this page was over.";
    byId("questions-margin").textContent = "";
    byId("questions-shares").replaceChildren();
    return;
  }
  byId("questions-change").textContent = `This row ${row.change}.`;
  const other = step ? `a prediction that differs by ${brief(step)} or more` : "another answer";
  byId("questions-margin").textContent = row.margin === null ? "" : `No row nearer than ${brief(row.margin)} spreads (l2) gets ${other}.`;
  const remark = `Shares of the prediction, from ${brief(row.base)} on average${row.exact ? "" : " (estimated)"}`;
  const items = row.shares.map(({ name, share }) => ({ name: tidy(name), value: share, text: withSign(share), colour: share < 0 ? "var(--class-0)" : "var(--accent)" }));
  byId("questions-shares").replaceChildren(h("p", { class: "muted" }, remark), items.length ? barList(items) : h("p", {}, "No feature changes it."));
}
