// Hands the options of a form to the browser's authenticator, and sends its answer with the form.
"use strict";
(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  const descriptor = (known) => ({ ...known, id: bytes(known.id) });
  const answer = (credential, response) =>
    JSON.stringify({ id: credential.id, rawId: text(credential.rawId), type: credential.type, response });

  const ceremonies = {
    async get(publicKey) {
      publicKey.challenge = bytes(publicKey.challenge);
      publicKey.allowCredentials = (publicKey.allowCredentials ?? []).map(descriptor);
      const credential = await navigator.credentials.get({ publicKey });
      const { authenticatorData, clientDataJSON, signature, userHandle } = credential.response;
      return answer(credential, {
        authenticatorData: text(authenticatorData),
        clientDataJSON: text(clientDataJSON),
        signature: text(signature),
        userHandle: userHandle && text(userHandle),
      });
    },
    async create(publicKey) {
      publicKey.challenge = bytes(publicKey.challenge);
      publicKey.user.id = bytes(publicKey.user.id);
      publicKey.excludeCredentials = (publicKey.excludeCredentials ?? []).map(descriptor);
      const credential = await navigator.credentials.create({ publicKey });
      const { attestationObject, clientDataJSON } = credential.response;
      return answer(credential, { attestationObject: text(attestationObject), clientDataJSON: text(clientDataJSON) });
    },
  };

  if (!window.PublicKeyCredential) return;
  for (const form of document.querySelectorAll("form[data-ceremony]")) {
    const problem = form.querySelector(".alert");
    const button = form.querySelector("button");
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.hidden = true;
      button.disabled = true;
      try {
        const run = ceremonies[form.dataset.ceremony];
        form.elements[form.dataset.answer].value = await run(JSON.parse(form.dataset.options));
        form.submit();
      } catch {
        // Cancelled, timed out, or no passkey of this account: the browser has said why.
        problem.hidden = false;
      } finally {
        button.disabled = false;
      }
    });
  }
})();
