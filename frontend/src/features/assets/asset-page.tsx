export function AssetPage() { return null; }
