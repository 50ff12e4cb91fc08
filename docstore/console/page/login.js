// Logging in: by a password, or by the certificate that the browser has shown.

import * as api from "./api.js";
import { el } from "./dom.js";

/** `certificate`: the name in it, if it may be tried. */
export function loginForm(done, certificate) {
  const problem = el("p", { class: "problem", role: "alert" });
  const user = el("input", { id: "login-user", autocomplete: "username", required: true });
  const password = el("input", { id: "login-password", type: "password", autocomplete: "current-password", required: true });
  const db = el("input", { id: "login-db", value: "admin", required: true });
  const button = el("button", { type: "submit" }, "Log in");
  const byCertificate = certificate && el("button", { type: "button", onclick: () => login({ mechanism: "MONGODB-X509" }, byCertificate) }, `Log in as ${certificate}`);
  const buttons = [button, byCertificate].filter(Boolean);
  async function login(proof, next) {
    for (const each of buttons) each.disabled = true;
    problem.textContent = "";
    let refused = false;
    try {
      await api.login(proof);
    } catch (error) {
      problem.textContent = error.message;
      password.value = "";
      refused = true;
    }
    for (const each of buttons) each.disabled = false;
    if (refused) next.focus();
    else await done();
  }
  function submit(event) {
    event.preventDefault();
    login({ user: user.value, password: password.value, db: db.value }, password);
  }
  return el("form", { class: "login", onsubmit: submit },
    el("h1", {}, "Log in"),
    byCertificate && [byCertificate, el("p", { class: "or" }, "by the certificate of this browser, or by a password:")],
    el("label", { for: "login-user" }, "User"), user,
    el("label", { for: "login-password" }, "Password"), password,
    el("label", { for: "login-db" }, "Database of the user"), db,
    problem, button);
}
