/** A log of any length: only the lines in view are drawn; colours of terminals are understood. */
import { ActionIcon, TextInput, Tooltip } from "@mantine/core";
import { IconArrowDown, IconDownload, IconSearch } from "@tabler/icons-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import Anser from "anser";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { plural } from "@/lib/format/numbers";
import { asShown, type Log, type LogLine } from "./use-log";
import classes from "./log-view.module.css";

const LINE_PX = 19;

export function LogView({ log, name }: { log: Log; name: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const [search, setSearch] = useState("");
  const [follows, setFollows] = useState(true);
  const lines = useMemo(() => chosenLines(log.lines, search), [log.lines, search]);
  // eslint-disable-next-line react-hooks/incompatible-library -- its values are used here only
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => frame.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
  });
  useEffect(() => {
    if (follows && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: "end" });
  }, [follows, lines.length, rows]);
  const onScroll = () => {
    const element = frame.current;
    if (element === null) return;
    setFollows(element.scrollHeight - element.scrollTop - element.clientHeight < LINE_PX * 2);
  };
  return (
    <div className={classes.log}>
      <div className={classes.tools}>
        <TextInput
          size="xs"
          className="grow"
          type="search"
          aria-label="Search in the log"
          placeholder="Search in the log"
          leftSection={<IconSearch size={13} aria-hidden />}
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
        <span className="small soft nowrap">{summary(log, lines.length, search)}</span>
        <Tool label="Go to the end and follow" run={() => setFollows(true)}>
          <IconArrowDown size={15} />
        </Tool>
        <Tool label="Download what is loaded" run={() => download(log.lines, name)}>
          <IconDownload size={15} />
        </Tool>
      </div>
      <div
        ref={frame}
        className={classes.frame}
        onScroll={onScroll}
        role="log"
        aria-label={`Log of ${name}`}
        aria-live="off"
        tabIndex={0}
      >
        {lines.length === 0 ? (
          <p className={classes.none}>{emptyWords(log, search)}</p>
        ) : (
          <div className={classes.lines} style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map((row) => {
              const line = lines[row.index];
              return line === undefined ? null : (
                <div
                  key={row.key}
                  data-index={row.index}
                  ref={rows.measureElement}
                  className={classes.line}
                  data-stream={line.stream}
                  style={{ transform: `translateY(${row.start}px)` }}
                >
                  <Ansi text={asShown(line.text)} />
                </div>
              );
            })}
          </div>
        )}
      </div>
      {log.error !== null && <p className={classes.error}>{log.error}</p>}
    </div>
  );
}

function chosenLines(lines: LogLine[], search: string): LogLine[] {
  // The piece after the last newline is not a line yet.
  const whole = lines.at(-1)?.text === "" ? lines.slice(0, -1) : lines;
  const wanted = search.toLowerCase();
  if (wanted === "") return whole;
  return whole.filter((line) => line.text.toLowerCase().includes(wanted));
}

function summary(log: Log, shown: number, search: string): string {
  if (search !== "") return `${shown} found`;
  return `${plural(shown, "line")}${log.complete ? "" : " …"}`;
}

function emptyWords(log: Log, search: string): string {
  if (search !== "" && log.lines.length > 0) return "No line holds this text.";
  if (log.untried) return "The block has not been tried yet: there is no log.";
  return log.complete ? "It wrote nothing." : "Waiting for the first line…";
}

function Tool({ label, run, children }: { label: string; run: () => void; children: React.ReactNode }) {
  return (
    <Tooltip label={label}>
      <ActionIcon variant="subtle" aria-label={label} onClick={run}>
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

const Ansi = memo(function Ansi({ text }: { text: string }) {
  if (!text.includes("\u001b")) return text === "" ? "\u00a0" : text;
  return Anser.ansiToJson(text, { json: true, remove_empty: true, use_classes: true }).map(
    (part, index) => (
      <span key={index} className={[part.fg, part.decoration].filter(Boolean).join(" ")}>
        {part.content}
      </span>
    ),
  );
});

function download(lines: LogLine[], name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob([lines.map((line) => line.text).join("\n")], { type: "text/plain" }),
  );
  link.download = `${name}.log`;
  link.click();
  URL.revokeObjectURL(link.href);
}
