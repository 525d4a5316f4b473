/** Short words after an action, read out politely; they go by themselves. */
import { CloseButton } from "@mantine/core";
import { createStore, useStore } from "zustand";
import { messageOf } from "@/lib/api/client";
import classes from "./toasts.module.css";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const SHOWN_MS = 6000;
const store = createStore<{ toasts: Toast[]; next: number }>(() => ({ toasts: [], next: 1 }));

function show(text: string, bad: boolean): void {
  const id = store.getState().next;
  store.setState((state) => ({ toasts: [...state.toasts.slice(-3), { id, text, bad }], next: id + 1 }));
  setTimeout(() => hide(id), bad ? SHOWN_MS * 2 : SHOWN_MS);
}

function hide(id: number): void {
  store.setState((state) => ({ toasts: state.toasts.filter((toast) => toast.id !== id) }));
}

export const say = (text: string) => show(text, false);
export const complain = (error: unknown) => show(messageOf(error), true);

export function Toasts() {
  const toasts = useStore(store, (state) => state.toasts);
  return (
    <div className={classes.toasts} role="status" aria-live="polite">
      {toasts.map((toast) => (
        <div key={toast.id} className={classes.toast} data-bad={toast.bad || undefined}>
          <span className="grow">{toast.text}</span>
          <CloseButton size="sm" variant="transparent" aria-label="Dismiss" onClick={() => hide(toast.id)} />
        </div>
      ))}
    </div>
  );
}
