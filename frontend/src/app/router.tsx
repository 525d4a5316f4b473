/** Every address of the page. What is behind an address is loaded when it is first opened. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";
import { ExperimentsPage } from "@/features/experiments/experiments-page";
import { SignInPage } from "@/features/session/sign-in-page";
import { meQuery } from "@/lib/api/session";
import { EXPERIMENT_STATES, type ExperimentState } from "@/lib/state/states";
import { Broken, NotFound } from "./broken";
import { queryClient } from "./query-client";
import { Shell } from "./shell";

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  component: SignInPage,
  validateSearch: (search: Record<string, unknown>): { next?: string } => ({
    next: text(search.next),
  }),
});

const inside = createRoute({
  getParentRoute: () => root,
  id: "inside",
  component: Shell,
  beforeLoad: async ({ location }) => {
    const me = await queryClient.query({ ...meQuery, staleTime: "static" });
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- the router's way
    if (me === null) throw redirect({ to: "/sign-in", search: { next: location.href } });
  },
});

const home = createRoute({
  getParentRoute: () => inside,
  path: "/",
  beforeLoad: () => {
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- the router's way
    throw redirect({ to: "/experiments" });
  },
});

const experiments = createRoute({
  getParentRoute: () => inside,
  path: "/experiments",
  component: ExperimentsPage,
  validateSearch: (
    search: Record<string, unknown>,
  ): { q?: string; state?: ExperimentState; owner?: string } => ({
    q: text(search.q),
    state: EXPERIMENT_STATES.find((state) => state === search.state),
    owner: text(search.owner),
  }),
});

const newExperiment = createRoute({
  getParentRoute: () => inside,
  path: "/experiments/new",
  validateSearch: (search: Record<string, unknown>): { toolchain?: string; edit?: string } => ({
    toolchain: text(search.toolchain),
    edit: text(search.edit),
  }),
  component: lazyRouteComponent(
    () => import("@/features/new-experiment/new-experiment-page"),
    "NewExperimentPage",
  ),
});

const run = createRoute({
  getParentRoute: () => inside,
  path: "/experiments/$id",
  validateSearch: (search: Record<string, unknown>): { tab?: string; block?: string } => ({
    tab: text(search.tab),
    block: text(search.block),
  }),
  component: lazyRouteComponent(() => import("@/features/run/run-page"), "RunPage"),
});

const monitor = createRoute({
  getParentRoute: () => inside,
  path: "/monitor",
  component: lazyRouteComponent(() => import("@/features/monitor/monitor-page"), "MonitorPage"),
});

const admin = createRoute({
  getParentRoute: () => inside,
  path: "/admin",
  validateSearch: (search: Record<string, unknown>): { tab?: string } => ({ tab: text(search.tab) }),
  component: lazyRouteComponent(() => import("@/features/admin/admin-page"), "AdminPage"),
});

const account = createRoute({
  getParentRoute: () => inside,
  path: "/account",
  component: lazyRouteComponent(() => import("@/features/account/account-page"), "AccountPage"),
});

const assets = createRoute({
  getParentRoute: () => inside,
  path: "/library/$kind",
  validateSearch: (search: Record<string, unknown>): { q?: string } => ({ q: text(search.q) }),
  component: lazyRouteComponent(() => import("@/features/assets/assets-page"), "AssetsPage"),
});

const newAsset = createRoute({
  getParentRoute: () => inside,
  path: "/library/$kind/new",
  validateSearch: (search: Record<string, unknown>): { from?: string } => ({
    from: text(search.from),
  }),
  component: lazyRouteComponent(() => import("@/features/assets/new-asset-page"), "NewAssetPage"),
});

const asset = createRoute({
  getParentRoute: () => inside,
  path: "/library/$kind/view/$",
  component: lazyRouteComponent(() => import("@/features/assets/asset-page"), "AssetPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    inside.addChildren([
      home,
      experiments,
      newExperiment,
      run,
      monitor,
      admin,
      account,
      assets,
      newAsset,
      asset,
    ]),
  ]),
  defaultPreload: "intent",
  defaultErrorComponent: Broken,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
