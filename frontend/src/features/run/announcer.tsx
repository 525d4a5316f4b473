/** Tells a screen reader how the run goes on, at most every five seconds. */
import { useEffect, useState } from "react";
import { countStates } from "@/lib/state/states";
import { useRunView } from "./graph/run-context";

const EVERY_MS = 5000;

export function Announcer({ name }: { name: string }) {
  const { store } = useRunView();
  const [text, setText] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tell = () => {
      timer = undefined;
      const { blocks, experiment } = store.getState();
      const counts = countStates(Object.values(blocks).map((block) => block.state));
      const words = Object.entries(counts).map(([state, number]) => `${number} ${state}`);
      setText(`${name} is ${experiment ?? "loading"}: ${words.join(", ")}`);
    };
    const stop = store.subscribe((now, before) => {
      if (now.blocks !== before.blocks) timer ??= setTimeout(tell, EVERY_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [store, name]);
  return (
    <div className="visually-hidden" role="status" aria-live="polite">
      {text}
    </div>
  );
}
