/** Mantine in our clothes: the colours are in styles/tokens.css, as no inline style is allowed. */
import {
  Button,
  createTheme,
  defaultVariantColorsResolver,
 Menu,
  Modal,
  Select,
  Tooltip,
  type MantineColorsTuple,
  type VariantColorsResolver,
} from "@mantine/core";

const ink: MantineColorsTuple = [
  "#f7f5f0",
  "#ebe7dd",
  "#d8d2c4",
  "#beb7a7",
  "#9c9585",
  "#7a7364",
  "#5f5a4e",
  "#45413a",
  "#302d27",
  "#24221d",
];

/** What is filled turns light in the dark: its words must then be dark. */
const variantColorResolver: VariantColorsResolver = (input) => {
  const colors = defaultVariantColorsResolver(input);
  return input.variant === "filled" ? { ...colors, color: "var(--on-accent)" } : colors;
};

export const theme = createTheme({
  variantColorResolver,
  primaryColor: "ink",
  colors: { ink },
  defaultRadius: 6,
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    // Locking the scroll would put a <style> into the page, which its policy forbids.
    Modal: Modal.extend({ defaultProps: { lockScroll: false, centered: true, radius: 10 } }),
    Button: Button.extend({ defaultProps: { size: "sm" } }),
    Menu: Menu.extend({ defaultProps: { shadow: "md", position: "bottom-end" } }),
    Select: Select.extend({ defaultProps: { allowDeselect: false, checkIconPosition: "right" } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300, multiline: true } }),
  },
});
