/** The door. */
import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Mill, Problem } from "@/components/ui/states-of-a-page";
import { useSignIn } from "./api/sign-in";
import classes from "./sign-in-page.module.css";

/** Only a path of this page, never another site's address. */
function inside(next: string | undefined): string {
  return next !== undefined && /^\/(?![/\\])/.test(next) ? next : "/experiments";
}

export function SignInPage() {
  const { next } = useSearch({ from: "/sign-in" });
  const navigate = useNavigate();
  const signIn = useSignIn();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  useEffect(() => {
    document.title = "Sign in · Gristmill";
  }, []);
  const enter = () =>
    signIn.mutate({ username, password }, { onSuccess: () => void navigate({ to: inside(next) }) });
  return (
    <main className={classes.door}>
      <form
        className={classes.form}
        onSubmit={(event) => {
          event.preventDefault();
          enter();
        }}
      >
        <Mill size={52} />
        <h1>Gristmill</h1>
        <p className="soft">Experiments on shared machines</p>
        <div className="stack">
          <TextInput
            label="Username"
            autoComplete="username"
            autoFocus
            required
            withAsterisk={false}
            value={username}
            onChange={(event) => setUsername(event.currentTarget.value)}
          />
          <PasswordInput
            label="Password"
            autoComplete="current-password"
            required
            withAsterisk={false}
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
          />
          {signIn.error !== null && <Problem error={signIn.error} />}
          <Button type="submit" fullWidth loading={signIn.isPending}>
            Sign in
          </Button>
        </div>
      </form>
    </main>
  );
}
