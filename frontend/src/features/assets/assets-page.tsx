export function AssetsPage() { return null; }
