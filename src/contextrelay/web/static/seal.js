// Decryption in the browser: the key comes from the part after the # of the address, or is typed,
// and is never sent. Formats k1 (Fernet) and k2 (docs/security.md). The content is shown as text.
(() => {
  "use strict";
  const box = document.querySelector("#sealed");
  if (!box) return;
  const part = (name) => box.querySelector(`#seal-${name}`);
  const say = (text) => { part("said").textContent = text; };
  const subtle = globalThis.crypto && crypto.subtle;
  if (!subtle) {
    say("Browsers decrypt only over https or on this machine: use the command below.");
    return;
  }
  const LINES = 200, HEADER = 16, CHUNK = 65536 + 16, MAGIC = [0x89, 0x72, 0x65, 0x6c, 0x61, 0x79, 0x6b, 0x32, 16];
  const fromBase64 = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
  const fromHex = (text) => Uint8Array.from(text.match(/../g) || [], (pair) => parseInt(pair, 16));
  const wrong = () => new Error("Wrong key, or the content was changed.");

  const openFernet = async (body, key) => {
    const token = fromBase64(new TextDecoder().decode(body));
    const secret = fromBase64(key);
    if (token.length < 73 || token[0] !== 0x80 || secret.length !== 32) throw wrong();
    const end = token.length - 32;
    const signing = await subtle.importKey("raw", secret.slice(0, 16), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    if (!await subtle.verify("HMAC", signing, token.slice(end), token.slice(0, end))) throw wrong();
    const cipher = await subtle.importKey("raw", secret.slice(16), "AES-CBC", false, ["decrypt"]);
    return [new Uint8Array(await subtle.decrypt({ name: "AES-CBC", iv: token.slice(9, 25) }, cipher, token.slice(25, end)))];
  };

  const openChunks = async (body, given) => {
    const [secret, id] = given.split(".").map(fromBase64);
    if (!id || secret.length !== 32 || id.length !== 16 || MAGIC.some((byte, at) => body[at] !== byte)) throw wrong();
    const key = await subtle.importKey("raw", secret, "AES-GCM", false, ["decrypt"]);
    // Earlier versions sealed another description.
    let datas = box.dataset.described.split(" ").map((each) => new Uint8Array([...id, ...fromHex(each)]));
    const last = Math.ceil((body.length - HEADER) / CHUNK) - 1;
    if (last < 0) throw wrong();
    const opened = [];
    for (let index = 0; index <= last; index += 1) {
      const nonce = new Uint8Array(12);
      nonce.set(body.slice(9, HEADER));
      new DataView(nonce.buffer).setUint32(7, index);
      nonce[11] = index === last ? 1 : 0;
      const chunk = body.slice(HEADER + index * CHUNK, HEADER + (index + 1) * CHUNK);
      let plain = null;
      for (const data of datas) {
        plain = await subtle.decrypt({ name: "AES-GCM", iv: nonce, additionalData: data }, key, chunk).catch(() => null);
        if (plain) { datas = [data]; break; }
      }
      if (!plain) throw wrong();
      opened.push(new Uint8Array(plain));
    }
    return opened;
  };

  // Invisible characters are written out, as everywhere (content/untrusted/hidden_chars.py).
  const hidden = new RegExp(box.dataset.hidden, "gu");
  const spelled = (text) => text.replace(hidden, (char) => `<U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
  let lines = [], shown = 0;
  const more = () => {
    part("text").textContent += lines.slice(shown, shown + LINES).join("\n") + "\n";
    shown += LINES;
    part("more").hidden = shown >= lines.length;
  };
  const open = async (text) => {
    const found = /(?:^|#)(key|k2)=([A-Za-z0-9_.=-]+)$/.exec(text.trim());
    const format = box.dataset.format;
    if (!found || (found[1] === "key") !== (format === "k1")) {
      say(`Invalid key: it must begin with #${format === "k1" ? "key" : "k2"}=`);
      return;
    }
    say("Decrypting…");
    try {
      const reply = await fetch(box.dataset.body, { credentials: "same-origin" });
      if (!reply.ok) throw new Error("The relay did not return the content; it may be too large. Use the command below.");
      const body = new Uint8Array(await reply.arrayBuffer());
      const parts = await (format === "k1" ? openFernet : openChunks)(body, found[2]);
      const whole = new Uint8Array(await new Blob(parts).arrayBuffer());
      lines = spelled(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(whole)).split("\n");
      part("text").textContent = "";
      shown = 0;
      part("text").hidden = false;
      more();
      say(`Decrypted here: ${whole.length.toLocaleString("en")} bytes.`);
      part("said").className = "good";
    } catch (error) {
      say(error instanceof TypeError ? "Decrypted, but the content is not text: use the command below." : error.name === "OperationError" ? wrong().message : error.message);
    }
  };

  part("open").addEventListener("click", () => open(part("key").value));
  part("key").addEventListener("keydown", (event) => { if (event.key === "Enter") open(part("key").value); });
  part("more").addEventListener("click", more);
  if (location.hash.length > 1) open(location.hash);
})();
