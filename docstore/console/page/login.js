// Logging in.

import * as api from "./api.js";
import { el } from "./dom.js";

export function loginForm(done) {
  const problem = el("p", { class: "problem", role: "alert" });
  const user = el("input", { id: "login-user", autocomplete: "username", required: true });
  const password = el("input", { id: "login-password", type: "password", autocomplete: "current-password", required: true });
  const db = el("input", { id: "login-db", value: "admin", required: true });
  const button = el("button", { type: "submit" }, "Log in");
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    problem.textContent = "";
    try {
      await api.login(user.value, password.value, db.value);
    } catch (error) {
      problem.textContent = error.message;
      password.value = "";
      password.focus();
      return;
    } finally {
      button.disabled = false;
    }
    await done();
  }
  return el("form", { class: "login", onsubmit: submit },
    el("h1", {}, "Log in"),
    el("label", { for: "login-user" }, "User"), user,
    el("label", { for: "login-password" }, "Password"), password,
    el("label", { for: "login-db" }, "Database of the user"), db,
    problem, button);
}
