module.exports = { plugins: { "postcss-preset-mantine": { autoRem: false } } };
