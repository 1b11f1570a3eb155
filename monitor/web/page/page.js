// The page of pgrepl monitor: asks what is known every few seconds and shows it. Every value goes in
// as text; nothing that comes from a server is ever parsed as HTML.

const RANGES = { "1 h": "1h", "6 h": "6h", "24 h": "1d", "14 d": "14d" };
const HOURS = { "1h": 1, "6h": 6, "1d": 24, "14d": 336 };
const LOOK_EVERY_MS = 3000;
const HISTORY_EVERY_MS = 15000;
const place = (id) => document.getElementById(id);

let token = sessionStorage.getItem("token");
let range = sessionStorage.getItem("range") ?? "1h";
let history = { sources: {} };
let historyAt = 0;
let last = null;

// ---- asking ------------------------------------------------------------------------------------

async function ask(path) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (answer.status === 401) throw new Refused();
  if (!answer.ok) throw new Error(`the monitor answered ${answer.status}`);
  return answer.json();
}

class Refused extends Error {}

async function look() {
  try {
    const found = await ask("/api/status");
    place("token").hidden = true;
    if (Date.now() - historyAt > HISTORY_EVERY_MS) {
      historyAt = Date.now();
      // Without it there is all the rest.
      history = await ask(`/api/history?since=${range}`).catch(() => history);
    }
    last = { ...found, readAt: Date.now(), isLost: false };
    show();
  } catch (error) {
    if (error instanceof Refused) askForToken();
    else if (last !== null) last.isLost = true;
    showAge();
    if (last === null && !(error instanceof Refused)) summarize("bad", "The monitor does not answer");
  }
}

function askForToken() {
  place("token-note").textContent = token === null ? "" : "That was not it.";
  place("token").hidden = false;
  summarize("warn", "Locked");
}

place("token").addEventListener("submit", (event) => {
  event.preventDefault();
  token = place("token-field").value.trim();
  sessionStorage.setItem("token", token);
  look();
});

for (const [words, value] of Object.entries(RANGES)) {
  const button = element("button", { type: "button", text: words, "aria-pressed": value === range });
  button.addEventListener("click", () => {
    range = value;
    sessionStorage.setItem("range", range);
    for (const other of place("ranges").children) other.setAttribute("aria-pressed", other === button);
    historyAt = 0;
    look();
  });
  place("ranges").append(button);
}

// ---- words -------------------------------------------------------------------------------------

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

function bytes(count) {
  let unit = 0;
  while (count >= 1024 && unit < UNITS.length - 1) { count /= 1024; unit += 1; }
  return `${unit && count < 10 ? count.toFixed(1) : Math.round(count)} ${UNITS[unit]}`;
}

function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

const number = (count) => count.toLocaleString("en");
const counted = (count, thing) => `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
const perSecond = (rate) => `${rate < 10 ? rate.toFixed(1) : number(Math.round(rate))} a second`;
const ago = (at) => duration(Math.max((Date.now() - new Date(at)) / 1000, 0));

// ---- the whole ---------------------------------------------------------------------------------

function summarize(kind, words) {
  place("summary").className = kind;
  place("summary").textContent = words;
  document.title = kind === "good" ? "pgrepl" : `${words} · pgrepl`;
}

function showAge() {
  if (last === null) return;
  const age = (last.age_seconds ?? 0) + (Date.now() - last.readAt) / 1000;
  const isOld = last.isLost || age > 4 * last.facts.interval_seconds + 10;
  place("age").className = isOld ? "bad" : "";
  if (last.facts.status === null) place("age").textContent = "";
  else if (last.isLost) place("age").textContent = `the monitor does not answer; as of ${duration(age)} ago`;
  else place("age").textContent = `as of ${duration(age)} ago`;
  for (const card of document.querySelectorAll(".source")) card.classList.toggle("old", isOld);
}

function show() {
  const { trouble, status, last_seen: lastSeen } = last.facts;
  place("version").textContent = `pgrepl ${last.facts.version}`;
  place("trouble").hidden = trouble === null;
  if (trouble !== null) {
    place("trouble").replaceChildren(
      element("p", { text: `The target does not answer, for ${ago(trouble.since)}: ${trouble.message}` }),
      element("p", { text: trouble.hint ?? "" }),
    );
  }
  const sources = status?.sources ?? [];
  const troubled = sources.filter((source) => source.problems.length);
  const count = troubled.reduce((sum, source) => sum + source.problems.length, 0);
  // Between two runs of a cron job that is as it should be; with a service it is not.
  const idle = sources.filter((source) => source.state === "not receiving").length;
  if (trouble !== null) summarize("bad", "The target does not answer");
  else if (status === null) summarize("warn", "Looking…");
  else if (count) summarize("bad", count === 1 ? "1 thing waits for you" : `${count} things wait for you`);
  else if (idle) summarize("warn", `Nothing waits for you; ${idle === 1 ? "1 source is" : `${idle} sources are`} not received now`);
  else summarize("good", "All is well");
  place("attention").hidden = !count;
  place("problems").replaceChildren(...troubled.map(problemCard));
  place("overview").hidden = !sources.length;
  // What fits on a screen needs no list of itself.
  place("index").hidden = sources.length < 4;
  place("index").replaceChildren(...sources.map(indexEntry));
  place("sources").replaceChildren(...sources.map((source) => sourceCard(source, lastSeen[source.name])));
  showAge();
}

function problemCard(source) {
  return element("li", { class: "problem" },
    element("h3", { text: source.name }),
    ...source.problems.map((problem) => {
      // A hint that is the command itself would say it twice.
      const isSaid = problem.commands.some((command) => problem.hint?.includes(command));
      return element("div", {},
        element("p", { class: "message" }, element("span", { class: "kind", text: problem.kind }), problem.message),
        problem.hint && !isSaid ? element("p", { class: "hint", text: problem.hint }) : null,
        ...problem.commands.map(commandLine));
    }));
}

function commandLine(command) {
  const line = element("div", { class: "command" }, element("code", { text: command }));
  // Browsers have it on safe origins only; the text can be selected anyway.
  if (navigator.clipboard) {
    const button = element("button", { type: "button", class: "copy", text: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    });
    line.append(button);
  }
  return line;
}

// ---- a source ----------------------------------------------------------------------------------

const STATES = { streaming: "good", unreachable: "bad", absent: "warn", "not receiving": "warn", "not configured": "bad" };

function indexEntry(source) {
  const kind = source.problems.length ? "bad" : STATES[source.state] ?? "";
  return element("a", { class: `chip ${kind}`, href: `#source-${source.name}`, title: source.state, text: source.name });
}

function sourceCard(source, seen) {
  const isDown = source.problems.find((problem) => problem.kind === "source-down");
  const card = element("li", { class: "source", id: `source-${source.name}`, "data-source": source.name },
    element("div", { class: "title" },
      element("h3", { text: source.name }),
      element("span", { class: `chip ${STATES[source.state] ?? ""}`, text: source.state }),
      lagTitle(source.positions)));
  if (isDown) {
    card.append(element("p", { class: "down", text: seen
      ? `It does not answer; it was last seen ${ago(seen.at)} ago.` : "It does not answer." }));
  }
  if (source.paused) {
    const { at, by, reason } = source.paused;
    card.append(element("p", { class: "paused", text: `Paused ${ago(at)} ago by ${by}${reason ? `: ${reason}` : ""}.` }));
  }
  if (source.positions !== null) {
    card.append(...charts(source.name), steps(source.positions));
  }
  card.append(facts(source, source.slot ?? seen?.slot ?? null, source.slot === null && Boolean(seen)));
  return card;
}

function lagTitle(positions) {
  if (positions === null) return null;
  const { lag_bytes: count, lag_seconds: seconds } = positions.applied;
  if (count === 0) return element("span", { class: "lag", text: "no lag" });
  return element("span", { class: "lag" }, element("small", { text: count === null ? "lag at most " : "lag " }),
    duration(seconds), element("small", { text: count === null ? "" : `, ${bytes(count)}` }));
}

function charts(name) {
  const hours = HOURS[range];
  const to = new Date();
  const from = new Date(to - hours * 3600 * 1000);
  const all = (history.sources[name] ?? []).map((point) => ({
    ...point, at: new Date(point.at), isDown: !point.is_reachable,
  })).filter((point) => point.at >= from);
  all.forEach((point, i) => {
    point.isBreak = i > 0 && point.at - all[i - 1].at > 3.5 * history.resolution_seconds * 1000;
  });
  const shared = { points: all, from, to };
  return [
    chart({ ...shared, title: "Lag of the tables", emptyText: "No history yet: replay or the monitor writes it.",
      lines: [{ key: "lag_seconds", label: "lag", print: duration }] }),
    ...(all.length > 1 ? [chart({ ...shared, title: "Changes", isSmall: true, emptyText: "",
      lines: [{ key: "received_per_second", label: "received", print: perSecond },
        { key: "applied_per_second", label: "applied", print: perSecond }] })] : []),
  ];
}

function steps(positions) {
  const step = (label, lsn, lag) => element("div", {},
    element("dt", { text: label }),
    element("dd", lag === null ? { text: lsn === null ? "does not answer" : "writes" }
      : { text: lagWords(lag), class: lag.lag_bytes ? "late" : "" }),
    element("dd", { class: "lsn", text: lsn ?? "unknown" }));
  return element("dl", { class: "steps" },
    step("source", positions.source, null),
    step("received", positions.received.lsn, positions.received),
    step("spooled", positions.flushed.lsn, positions.flushed),
    step("applied", positions.applied.lsn, positions.applied));
}

function lagWords(step) {
  if (step.lag_bytes === 0) return "no lag";
  return step.lag_bytes === null ? `≤ ${duration(step.lag_seconds)}` : bytes(step.lag_bytes);
}

function facts(source, slot, isOldSlot) {
  const list = element("dl", { class: "facts" });
  const add = (label, ...content) => list.append(element("dt", { text: label }), element("dd", {}, ...content));
  if (slot !== null) add("Slot", ...slotWords(slot, isOldSlot));
  if (source.spool !== null) add("Spool", spoolWords(source.spool));
  if (source.is_replaying !== null && source.positions !== null) {
    const rate = source.rate.applied_bytes_per_second;
    add("Replay", source.is_replaying
      ? `running${rate ? `, ${bytes(rate)} of WAL a second` : ""}` : element("span", { class: "warn", text: "not running" }));
  }
  if (source.shards?.length) add("Shards", element("div", { class: "shards" }, ...source.shards.map(shard)));
  if (source.consumers?.length) add("Consumers", element("ol", { class: "tables" }, ...source.consumers.map(consumer)));
  if (source.copies?.length) add("Copy", ...copyWords(source.copies));
  if (source.tables !== null) add("Tables", ...tableWords(source));
  return list;
}

function slotWords(slot, isOld) {
  const words = [slot.is_active ? "read from" : "nobody reads it", `${bytes(slot.held_bytes ?? 0)} of WAL kept`];
  if (!["reserved", "extended"].includes(slot.wal_status)) words.push(`WAL ${slot.wal_status}`);
  const found = [element("span", { text: words.join(", ") })];
  if (isOld) found.push(element("span", { class: "soft", text: " (when it was last seen)" }));
  if (slot.safe_bytes !== null && slot.max_keep_bytes) {
    const used = Math.min(1, Math.max(0, 1 - slot.safe_bytes / slot.max_keep_bytes));
    const bar = element("div", { class: used > 0.9 ? "bar bad" : used > 0.6 ? "bar warn" : "bar" });
    bar.append(element("i"));
    bar.firstChild.style.width = `${(used * 100).toFixed(1)}%`;
    const left = slot.seconds_to_loss === null ? "" : `: ${duration(slot.seconds_to_loss)} at this rate`;
    found.push(bar, element("span", { class: "soft",
      text: `${bytes(Math.max(slot.safe_bytes, 0))} more until it is lost${left}` }));
  }
  return found;
}

function spoolWords(spool) {
  if (!spool.segment_count) return "empty";
  const age = spool.oldest_commit_at === null ? "" : `, the oldest from ${ago(spool.oldest_commit_at)} ago`;
  return `${counted(spool.change_count, "change")} in ${counted(spool.segment_count, "segment")}, ${bytes(spool.bytes)}${age}`;
}

function shard(item) {
  const lag = item.segments_behind;
  return element("span", { class: lag ? "shard warn" : "shard",
    text: lag ? `${item.shard}: ${counted(lag, "segment")} to go` : `${item.shard}: all applied` });
}

function consumer(item) {
  const words = item.segments_behind
    ? [`${counted(item.segments_behind, "segment")} to go`, `${bytes(item.spool_bytes)} kept for it`] : ["has read everything"];
  if (item.is_in_danger) words.push(`let go in ${duration(item.seconds_left)} unless it moves`);
  const text = item.lost_at === null ? words.join(", ") : "let go: it did not move for too long";
  const isBad = item.lost_at !== null || item.is_in_danger;
  return element("li", {}, element("span", { class: "name", text: item.name }),
    element("span", { class: isBad ? "why bad" : "why", text: `${item.kind} to ${item.destination}: ${text}` }));
}

function copyWords(copies) {
  const size = copies.reduce((sum, table) => sum + table.size_bytes, 0);
  const done = copies.reduce((sum, table) => sum + table.done_bytes, 0);
  const rows = copies.reduce((sum, table) => sum + table.row_count, 0);
  const bar = element("div", { class: "bar" }, element("i"));
  bar.firstChild.style.width = `${size ? (100 * done) / size : 0}%`;
  const ready = copies.filter((table) => table.is_ready).length;
  return [element("span", { text: `${ready} of ${counted(copies.length, "table")}, ${bytes(done)} of ${bytes(size)}, ${counted(rows, "row")}` }), bar];
}

function tableWords(source) {
  const words = [`${number(source.tables.ready_count)} ready`];
  const held = source.tables.not_well.filter((table) => table.parked_reason !== null);
  const kinds = { paused: 0, locked: 0, parked: 0 };
  for (const table of held) kinds[heldBy(table)] += 1;
  const { parked } = kinds;
  for (const kind of ["parked", "paused", "locked"]) if (kinds[kind]) words.push(`${kinds[kind]} ${kind}`);
  if (source.pending_ddl_count) words.push(`${counted(source.pending_ddl_count, "DDL statement")} pending`);
  const list = element("ol", { class: "tables" });
  for (const table of source.tables.not_well) {
    list.append(element("li", {}, element("span", { class: "name", text: table.name }),
      ...reasons(table).map((reason) => element("span", { class: "why", text: reason }))));
  }
  return [element("span", { text: words.join(", "), class: parked ? "bad" : "" }), list];
}

function heldBy(table) {
  return ["paused", "locked"].includes(table.parked_kind) ? table.parked_kind : "parked";
}

function reasons(table) {
  const found = [];
  if (table.parked_reason !== null) found.push(`${heldBy(table)} with ${counted(table.parked_changes, "change")}: ${table.parked_reason}`);
  if (table.resync_reason !== null) found.push(`${table.resync_due ? "replay copies it again" : "needs a resync"}: ${table.resync_reason}`);
  if (table.state === "copying") found.push(`being copied, ${table.copied_parts} of ${counted(table.parts, "part")}`);
  if (table.state === "pending") found.push("waits to be copied");
  if (table.missing_rows || table.extra_rows) found.push(`${counted(table.missing_rows, "row")} missing, ${number(table.extra_rows)} too many when changes came`);
  return found;
}

// ---- charts ------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 100;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Draw one or two lines over time. `points` have `at` (a Date), `isDown`, and a value for each of
// `lines`: {key, label, print}. A value that is null is a hole.
function chart({ points, from, to, lines, title, isSmall = false, emptyText }) {
  const box = element("div", { class: isSmall ? "chart small" : "chart" });
  const known = points.filter((point) => lines.some((line) => point[line.key] !== null));
  const top = Math.max(...known.flatMap((point) => lines.map((line) => point[line.key] ?? 0)), 0);
  const legend = element("div", { class: "legend" });
  box.append(legend);
  const rest = () => {
    const names = lines.length > 1
      ? lines.flatMap((line, i) => [
        element("i", { class: i ? "swatch second" : "swatch" }), line.label, i ? "" : "  ",
      ])
      : [title];
    legend.replaceChildren(
      element("span", {}, ...names),
      element("span", { text: known.length ? `at most ${lines[0].print(top)}` : "" }),
    );
  };
  rest();
  if (known.length < 2) {
    box.append(element("p", { class: "empty", text: emptyText }));
    return box;
  }
  const x = (at) => ((at - from) / (to - from)) * WIDTH;
  const y = (value) => HEIGHT - (top ? value / top : 0) * (HEIGHT - 6);
  const svg = shape("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title,
  });
  svg.append(...gaps(points, x));
  lines.forEach((line, i) => svg.append(...traces(points, line.key, x, y, i)));
  svg.append(shape("line", { class: "ground", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }));
  const hair = shape("line", { class: "hair", y1: 0, y2: HEIGHT, visibility: "hidden" });
  svg.append(hair);
  svg.addEventListener("pointermove", (event) => {
    const place = svg.getBoundingClientRect();
    const at = from.getTime() + ((event.clientX - place.left) / place.width) * (to - from);
    const near = known.reduce((a, b) => (Math.abs(a.at - at) <= Math.abs(b.at - at) ? a : b));
    hair.setAttribute("x1", x(near.at));
    hair.setAttribute("x2", x(near.at));
    hair.setAttribute("visibility", "visible");
    const values = lines.map((line) => `${lines.length > 1 ? line.label + " " : ""}${
      near[line.key] === null ? "unknown" : line.print(near[line.key])}`);
    legend.replaceChildren(
      element("b", { text: values.join(", ") }),
      element("span", { text: near.at.toLocaleString([], { hourCycle: "h23" }) + (near.isDown ? ", source down" : "") }),
    );
  });
  svg.addEventListener("pointerleave", () => {
    hair.setAttribute("visibility", "hidden");
    rest();
  });
  box.append(svg);
  if (!isSmall) {
    box.append(element("div", { class: "times" },
      element("span", { text: clock(from, to) }), element("span", { text: "now" })));
  }
  return box;
}

// Times at which the source was down, as bands.
function gaps(points, x) {
  const bands = [];
  points.forEach((point, i) => {
    if (!point.isDown) return;
    const begin = x(i ? points[i - 1].at : point.at);
    bands.push(shape("rect", {
      class: "gap", x: begin, y: 0, width: Math.max(x(point.at) - begin, 1), height: HEIGHT,
    }));
  });
  return bands;
}

// A line, and an area under the first one; broken where nothing is known.
function traces(points, key, x, y, number) {
  const runs = [];
  let run = null;
  for (const point of points) {
    if (point[key] === null || point.isBreak) run = null;
    if (point[key] === null) continue;
    if (run === null) runs.push(run = []);
    run.push(`${x(point.at).toFixed(1)},${y(point[key]).toFixed(1)}`);
  }
  return runs.flatMap((corners) => {
    const line = shape("polyline", {
      class: number ? "trace second" : "trace", points: corners.join(" "),
    });
    if (number) return [line];
    const first = corners[0].split(",")[0];
    const last = corners[corners.length - 1].split(",")[0];
    const area = shape("polygon", {
      class: "area", points: `${first},${HEIGHT} ${corners.join(" ")} ${last},${HEIGHT}`,
    });
    return [area, line];
  });
}

function clock(from, to) {
  const isLong = to - from > 36 * 3600 * 1000;
  return from.toLocaleString([], isLong
    ? { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }
    : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

async function run() {
  await look();
  setTimeout(run, LOOK_EVERY_MS);
}

run();
setInterval(showAge, 1000);
